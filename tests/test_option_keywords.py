"""Options as keywords: what type checkers see, what `help` lists, and what is accepted are the same."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from dataclasses import fields

import pytest

import kdcode
from kdcode.errors import OptionError
from kdcode.learning.run_settings import CompressKeywords, PlanKeywords, PlanSettings, RunSettings
from kdcode.option_keywords import OptionKeywords
from kdcode.options import LEARNER_OPTIONS, CompressOptions

OPTIONS = {
    item.name: item
    for options in (CompressOptions, *LEARNER_OPTIONS.values())
    for item in fields(options)
    if item.name not in ("name",)
}
TYPED = typing.get_type_hints(OptionKeywords)


def test_every_option_is_a_typed_keyword():
    assert set(TYPED) == set(OPTIONS)


@pytest.mark.parametrize("name", [name for name, item in OPTIONS.items() if item.metadata.get("choices")])
def test_choices_are_those_of_the_option(name):
    kind = TYPED[name]
    parts = [kind] if typing.get_origin(kind) is typing.Literal else typing.get_args(kind)
    listed = {value for part in parts for value in typing.get_args(part)}
    assert listed == set(OPTIONS[name].metadata["choices"])


@pytest.mark.parametrize(
    ("function", "keywords", "settings"),
    [
        (kdcode.compress, CompressKeywords, RunSettings),
        (kdcode.plan, PlanKeywords, PlanSettings),
        (kdcode.learning.learn_encoder, CompressKeywords, RunSettings),
    ],
)
def test_help_lists_every_keyword_with_its_default(function, keywords, settings):
    parameters = inspect.signature(function).parameters
    assert set(keywords.__annotations__ | TYPED) == {*OPTIONS, *(item.name for item in fields(settings))}
    for name, item in {**OPTIONS, **{item.name: item for item in fields(settings)}}.items():
        assert parameters[name].default == item.default
        assert f"    {name}: {item.metadata['help']}" in function.__doc__
    assert not [one for one in parameters.values() if one.kind is inspect.Parameter.VAR_KEYWORD]


def test_typos_are_refused():
    table = kdcode.data.glove_50d().head(20)
    for call in (kdcode.compress, kdcode.plan):
        with pytest.raises(OptionError, match="there is no option 'efort'; the options are"):
            call(table, "4x", efort="fast")


WRONG = {
    'kdcode.compress(table, efort="fast")': "efort",
    'kdcode.compress(table, effort="quick")': "effort",
    'kdcode.compress(table, codebook_size="16")': "codebook_size",
    'kdcode.plan(table, "20x", thread=2)': "thread",
}


def test_a_type_checker_sees_keywords_and_typos(tmp_path):
    right = 'kdcode.compress(table, "20x", effort="fast", threads=2)'
    lines = ["import kdcode", "from kdcode.data import glove_50d", "table = glove_50d()", right]
    script = tmp_path / "script.py"
    script.write_text("\n".join([*lines, *WRONG, ""]), encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\n[mypy-torch.*,numpy.*]\nfollow_imports = skip\n", encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", script],
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line.split(":")[1]: line for line in checked.stdout.splitlines() if ": error: " in line}
    assert list(found) == [str(len(lines) + 1 + number) for number in range(len(WRONG))], checked.stdout
    for line, name in zip(found.values(), WRONG.values(), strict=True):
        assert name in line
