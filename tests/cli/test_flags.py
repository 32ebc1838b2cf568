from dataclasses import dataclass, field, fields

import click
import pytest
from click.testing import CliRunner

from kdcode.cli.flags import FlaggedCommand, example, flags_for, given, take
from kdcode.formats import ReadOptions
from kdcode.options import CompressOptions


@dataclass(frozen=True)
class Pudding:
    eggs: int = field(default=3, metadata={"help": "How many."})
    sauce_name: str | None = field(default=None, metadata={"help": "What on top."})
    heat: float = field(default=0.5, metadata={"help": "How hot."})
    dish: str = field(default="oven", metadata={"help": "Where.", "choices": ("oven", "pan")})
    raisins: bool = field(default=False, metadata={"help": "With or without."})


def parse(*args):
    seen = {}

    @click.command("cook", cls=FlaggedCommand, flags_of={"Pudding": f"{__name__}:Pudding"})
    @click.option("--loud", is_flag=True, help="Sing.")
    def cook(loud, **values):
        seen.update(pudding=take(Pudding, values), loud=loud, rest=values)

    return CliRunner().invoke(cook, args), seen


def test_fields_become_flags_with_their_types_and_defaults():
    result, seen = parse()
    assert result.exit_code == 0, result.output
    assert seen == {"pudding": Pudding(), "loud": False, "rest": {}}
    _, seen = parse("--eggs", "5", "--sauce-name", "plum", "--heat", "2", "--dish", "pan", "--raisins", "--loud")
    assert seen["pudding"] == Pudding(5, "plum", 2.0, "pan", True)
    assert isinstance(seen["pudding"].heat, float)


@pytest.mark.parametrize("words", [("--eggs", "two"), ("--dish", "pot"), ("--sauce_name", "plum")])
def test_wrong_values_are_wrong_usage(words):
    assert parse(*words)[0].exit_code == 2


def test_help_has_a_block_per_dataclass_and_shows_defaults():
    text = parse("--help")[0].output
    own, made = text.split("Pudding:")
    assert "--loud" in own
    assert "--help" in own
    assert "[default: 3]" in made
    assert "[oven|pan]" in made
    assert "default: None" not in made


@pytest.mark.parametrize("options", [CompressOptions, ReadOptions])
def test_every_real_option_has_a_flag_with_help(options):
    flags = flags_for(options)
    assert [flag.name for flag in flags] == [item.name for item in fields(options)]
    assert all(flag.help for flag in flags)


def test_the_papers_letters_are_short_flags():
    shorts = {short for flag in flags_for(CompressOptions) for short in flag.opts if len(short) == 2}
    assert shorts == {"-K", "-D"}


def test_given_repeats_what_differs_from_the_defaults():
    assert given(ReadOptions(limit=5, symbol_column="word")) == ["--symbol-column", "word", "--limit", "5"]
    assert given(ReadOptions()) == []


def test_example_keeps_its_lines():
    assert example("kdcode a", "kdcode b") == "\b\nExamples:\n  kdcode a\n  kdcode b"
