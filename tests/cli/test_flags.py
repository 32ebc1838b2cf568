from dataclasses import dataclass, field, fields

import click
import pytest
from click.testing import CliRunner

from kdcode.cli import main
from kdcode.cli.flags import FlaggedCommand, changed_flags, example, flags_for, in_flags, is_given, naming_flags, take
from kdcode.errors import OptionError
from kdcode.io import ReadOptions
from kdcode.options import LEARNER_OPTIONS, CompressOptions


@dataclass(frozen=True)
class Pudding:
    eggs: int = field(default=3, metadata={"help": "How many."})
    eggs_beaten: int = field(default=1, metadata={"help": "How many of them."})
    sauce_name: str | None = field(default=None, metadata={"help": "What on top."})
    heat: float = field(default=0.5, metadata={"help": "How hot."})
    dish: str = field(default="oven", metadata={"help": "Where.", "choices": ("oven", "pan")})
    raisins: bool = field(default=False, metadata={"help": "With or without."})

    def __post_init__(self):
        if self.eggs_beaten > self.eggs:
            raise OptionError(f"eggs_beaten must be at most {self.eggs}, got {self.eggs_beaten}")


def parse(*args, short=()):
    seen = {}

    @click.command("cook", cls=FlaggedCommand, sections=lambda: {"Pudding": flags_for(Pudding)}, short=short)
    @click.option("--loud", is_flag=True, help="Sing.")
    def cook(loud, **values):
        seen["given"] = [name for name in values if is_given(name)]
        seen.update(pudding=take(Pudding, values), loud=loud, rest=values)

    return CliRunner().invoke(cook, args), seen


def test_fields_become_flags_with_their_types_and_defaults():
    result, seen = parse()
    assert result.exit_code == 0, result.output
    assert seen == {"pudding": Pudding(), "loud": False, "rest": {}, "given": []}
    _, seen = parse("--eggs", "5", "--sauce-name", "plum", "--heat", "2", "--dish", "pan", "--raisins", "--loud")
    assert seen["pudding"] == Pudding(5, 1, "plum", 2.0, "pan", True)
    assert isinstance(seen["pudding"].heat, float)


def test_a_flag_counts_as_given_with_its_default_value_too():
    assert parse("--eggs", "3", "--no-raisins")[1]["given"] == ["eggs", "raisins"]


@pytest.mark.parametrize("words", [("--eggs", "two"), ("--dish", "pot"), ("--sauce_name", "plum")])
def test_wrong_values_are_wrong_usage(words):
    assert parse(*words)[0].exit_code == 2


def test_a_refused_value_names_its_flag_and_not_one_that_begins_alike():
    result, _ = parse("--eggs-beaten", "9")
    assert result.exit_code == 2
    assert "Error: --eggs-beaten must be at most 3, got 9" in result.output


def test_other_refusals_keep_their_kind_and_their_words():
    @click.command("cook", cls=FlaggedCommand, sections=lambda: {"Pudding": flags_for(Pudding)})
    @click.option("--message")
    def cook(message, **_):
        with naming_flags(OptionError):
            raise OptionError(message)

    for message, expected in (("heat: too much", "--heat: too much"), ("heater: none", "heater: none")):
        error = CliRunner().invoke(cook, ["--message", message]).exception
        assert (type(error), str(error)) == (OptionError, expected)


def test_help_has_a_block_per_section_and_shows_defaults():
    text = parse("--help")[0].output
    own, made = text.split("Pudding:")
    assert "--loud" in own
    assert "--help" in own
    assert "--help-all" not in own
    assert "[default: 3]" in made
    assert "[oven|pan]" in made
    assert "default: None" not in made


def test_a_short_help_shows_some_flags_and_says_how_to_see_all():
    short = parse("--help", short=("heat", "loud"))[0].output
    words = [line.split()[0] for line in short.split("Options:")[1].strip().splitlines()]
    assert words == ["--heat", "--loud", "--help", "--help-all"]
    result, seen = parse("--help-all", short=("heat", "loud"))
    assert (result.exit_code, seen) == (0, {})
    assert all(flag in result.output.split("Pudding:")[1] for flag in ("--heat", "--eggs", "--raisins"))
    assert "--help-all" in result.output.split("Pudding:")[0]


@pytest.mark.parametrize("options", [CompressOptions, ReadOptions, *LEARNER_OPTIONS.values()])
def test_every_real_option_has_a_flag_with_help(options):
    flags = flags_for(options)
    assert [flag.name for flag in flags] == [item.name for item in fields(options)]
    assert all(flag.help for flag in flags)


def test_only_some_fields():
    assert [flag.name for flag in flags_for(CompressOptions, only=["seed", "loss"])] == ["loss", "seed"]


def test_the_papers_letters_are_short_flags():
    shorts = {short for flag in flags_for(CompressOptions) for short in flag.opts if len(short) == 2}
    assert shorts == {"-K", "-D"}


def test_changed_flags_repeat_what_differs_from_the_defaults():
    assert changed_flags(ReadOptions(limit=5, symbol_column="word")) == ["--symbol-column", "word", "--limit", "5"]
    assert changed_flags(ReadOptions()) == []


def test_example_keeps_its_lines():
    assert example("kdcode a", "kdcode b") == "\b\nExamples:\n  kdcode a\n  kdcode b"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("use format='word2vec-text'", "use --format word2vec-text"),
        ("name it with format=: glove (.txt)", "name it with --format: glove (.txt)"),
        ("it is truncated (limit= reads the rest)", "it is truncated (--limit reads the rest)"),
        ("its options are symbol_column=, limit=", "its options are --symbol-column, --limit"),
        ("limit=3.txt: the file is empty", "limit=3.txt: the file is empty"),
        ("data/limit=3/a.txt: the file is empty", "data/limit=3/a.txt: the file is empty"),
        ("the symbol 'limit=3' stands in line 1", "the symbol 'limit=3' stands in line 1"),
        ("a keyword= that no flag has, K=16", "a keyword= that no flag has, K=16"),
    ],
)
def test_keywords_of_messages_become_flags(message, expected):
    group = click.Context(main, **main.context_settings)  # click keeps the help option of a command's first context
    command = main.get_command(group, "compress")
    assert in_flags(message, command, click.Context(command, parent=group)) == expected
