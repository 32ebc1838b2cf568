"""Flags of learners: each under its heading, refused where another learner runs."""

from dataclasses import fields

import click
import pytest
from click.testing import CliRunner

from kdcode.cli import main
from kdcode.cli.flags import FlaggedCommand
from kdcode.cli.learner_flags import compress_sections, learner_sections, take_options
from kdcode.options import LEARNER_OPTIONS, Algorithm1Options, CompressOptions, EncoderOptions, GradientOptions


def parse(*args):
    seen = {}

    @click.command("learn", cls=FlaggedCommand, sections=compress_sections)
    def learn(**values):
        seen.update(options=take_options(values), rest=values)

    return CliRunner().invoke(learn, args), seen


def test_an_option_that_several_learners_have_stands_once():
    sections = learner_sections()
    assert list(sections) == [
        "Additive learner",
        "Straight-through, algorithm-1 and encoder learners",
        "Straight-through and encoder learners",
        "Straight-through learner",
        "Algorithm-1 learner",
    ]
    names = [flag.name for flags in sections.values() for flag in flags]
    assert len(names) == len(set(names))
    assert set(names) == {item.name for options in LEARNER_OPTIONS.values() for item in fields(options)}
    assert "curvature" in {flag.name for flag in sections["Straight-through learner"]}


def test_flags_reach_the_options_of_their_learner():
    assert parse()[1]["options"] == CompressOptions()
    _, seen = parse("--learner", "straight-through", "--curvature", "0", "--epochs", "7", "-K", "8")
    assert seen["options"] == CompressOptions(codebook_size=8, learner=GradientOptions(curvature=0.0, epochs=7))
    _, seen = parse("--learner", "encoder", "--epochs", "7")
    assert seen["options"].learner == EncoderOptions(epochs=7)
    _, seen = parse("--composition", "lstm", "--start", "random")
    assert seen["options"].learning == GradientOptions(start="random")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--curvature", "0.8"),
            "--curvature is an option of the learner straight-through; the learner here is additive",
        ),
        (
            ("--batch-size", "10", "--learner", "random"),
            "--batch-size is an option of the learner straight-through, algorithm-1 and encoder; the learner here is "
            "random",
        ),
        (
            ("--effort", "normal", "--composition", "lstm"),
            "--effort is an option of the learner additive; the learner here is straight-through",
        ),
        (
            ("--start", "warm", "--learner", "encoder"),
            "--start is an option of the learner straight-through; the learner here is encoder",
        ),
    ],
)
def test_a_flag_of_another_learner_is_refused_even_with_its_default(words, message):
    result, seen = parse(*words)
    assert (result.exit_code, seen) == (2, {})
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--learner", "encoder", "--temperature-decay", "-1"), "--temperature-decay must be a number of at least 0"),
        (
            ("--learner", "additive", "--composition", "lstm"),
            "--learner must be straight-through, algorithm-1 or random for an LSTM",
        ),
        (("--groups", "2"), "--groups are for the grouped composition"),
        (("--rotation",), "--rotation is for product and grouped compositions"),
    ],
)
def test_refused_values_name_their_flag(words, message):
    result, _ = parse(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("width", [100, 80])
def test_the_short_help_of_compress_fits_a_screen(width):
    text = CliRunner().invoke(main, ["compress", "--help"], terminal_width=width).output
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= width
    for flag in ("--size", "--bits", "--max-error", "-K", "-D", "--composition", "--effort", "--seed", "--help-all"):
        assert f"  {flag}" in text
    for flag in ("--codebook-dtype", "--force", "--json", "--quiet"):
        assert f"  {flag}" in text
    assert "--curvature" not in text


def test_the_full_help_of_compress_has_every_option_under_its_heading():
    text = CliRunner().invoke(main, ["compress", "--help-all"], terminal_width=100).output
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", "Codes", *learner_sections(), "Reading"]
    for options in (CompressOptions, *LEARNER_OPTIONS.values()):
        assert all(f"--{item.name.replace('_', '-')} " in text for item in fields(options))


def test_a_learner_with_another_default_says_so_and_has_it():
    text = CliRunner().invoke(main, ["compress", "--help-all"], terminal_width=100).output
    assert "The default of algorithm-1 is 1.0." in " ".join(text.split())
    _, seen = parse("--learner", "algorithm-1", "--temperature-step", "update")
    assert seen["options"].learner == Algorithm1Options(temperature_decay=1.0, temperature_step="update")
    _, seen = parse("--learner", "algorithm-1", "--temperature-decay", "0")
    assert seen["options"].learning.temperature_decay == 0
