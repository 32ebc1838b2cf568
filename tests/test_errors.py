import copy
import errno
import os
import pickle
import tomllib
import traceback
from pathlib import Path

import pytest

from kdcode import errors
from kdcode.io import ChosenMatrixWarning, SkippedLinesWarning
from kdcode.safetensors_header import HeaderError


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (errors.OptionError, ValueError),
        (errors.TableError, ValueError),
        (errors.RowError, IndexError),
        (errors.ReadOnlyError, TypeError),
        (errors.FormatError, ValueError),
        (errors.StorageError, ValueError),
        (errors.LimitError, ValueError),
        (errors.FileError, OSError),
        (errors.MissingFileError, FileNotFoundError),
        (errors.FileAccessError, PermissionError),
        (errors.FolderError, IsADirectoryError),
        (errors.CheckpointError, ValueError),
        (errors.MissingExtraError, ImportError),
        (errors.UnknownSymbolError, KeyError),
    ],
)
def test_every_error_is_ours_and_plain_pythons(kind, plain):
    assert issubclass(kind, errors.KdcodeError)
    assert issubclass(kind, plain)


def test_an_unknown_symbol_reads_like_a_sentence():
    assert str(errors.UnknownSymbolError("x")) == "the table has no symbol 'x'"
    assert str(errors.UnknownSymbolError("King", "king")) == "the table has no symbol 'King'; did you mean 'king'?"


def test_a_missing_extra_gives_the_install_line():
    assert str(errors.MissingExtraError("reading Parquet", "parquet")) == (
        "pyarrow is required for reading Parquet and is not installed: pip install 'pyarrow>=14'"
    )


@pytest.mark.parametrize(
    ("number", "kind", "reading", "writing"),
    [
        (errno.ENOENT, errors.MissingFileError, "there is no such file", "cannot be written: there is no folder none"),
        (errno.EACCES, errors.FileAccessError, "cannot be read: Permission denied", None),
        (errno.EISDIR, errors.FolderError, "is a folder, expected a file", "is a folder, expected a file"),
        (errno.ENOSPC, errors.FileError, None, "cannot be written: No space left on device"),
    ],
)
def test_what_the_system_says_of_a_file_becomes_a_refusal_that_names_it(number, kind, reading, writing):
    for action, reason in (("read", reading), ("written", writing)):
        if reason is not None:
            raised = errors.file_error("none/a.txt", action, OSError(number, os.strerror(number)))
            assert type(raised) is kind
            assert str(raised) == f"none/a.txt: {reason}"
            assert (raised.errno, raised.filename) == (number, "none/a.txt")


def test_the_install_lines_are_those_of_the_package():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name: project["optional-dependencies"][name] for name in errors.EXTRAS} == {
        name: [package] for name, package in errors.EXTRAS.items()
    }


OURS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KdcodeError)]
PLAIN = [kind for kind in OURS if "__init__" not in vars(kind)]


@pytest.mark.parametrize("copied", [copy.copy, lambda raised: pickle.loads(pickle.dumps(raised))])  # noqa: S301
@pytest.mark.parametrize(
    "raised",
    [
        *(kind("what was wrong") for kind in PLAIN),
        HeaderError("what was wrong"),
        errors.MissingFileError(errno.ENOENT, "there is no such file", "a.txt"),
        errors.MissingExtraError("reading Parquet", "parquet"),
        errors.UnknownSymbolError("x"),
        errors.UnknownSymbolError("King", "king"),
        SkippedLinesWarning(Path("a.txt"), 3, "line 2: too few numbers"),
        ChosenMatrixWarning(Path("a.pt"), "wte.weight", (50257, 768)),
    ],
    ids=lambda raised: type(raised).__name__,
)
def test_errors_and_warnings_can_be_sent_to_another_process(raised, copied):
    sent = copied(raised)
    assert type(sent) is type(raised)
    assert str(sent) == str(raised)
    assert vars(sent) == vars(raised)


def test_a_warning_of_skipped_lines_reads_like_a_sentence():
    warning = SkippedLinesWarning(Path("a.txt"), 3, "line 2: too few numbers")
    assert str(warning) == "a.txt: skipped 3 bad lines or rows, the first: line 2: too few numbers"
    assert (warning.count, warning.first) == (3, "line 2: too few numbers")


HOSTILE = "a\x1b[7m\x9b\u202e\udcff\U000e0041\nb"
ESCAPED = "a\\x1b[7m\\x9b\\u202e\\udcff\\U000e0041\\nb"


@pytest.mark.parametrize(
    "raised",
    [
        *(kind(f"{HOSTILE}: what was wrong") for kind in PLAIN),
        HeaderError(HOSTILE),
        errors.file_error(HOSTILE, "read", FileNotFoundError(errno.ENOENT, "none")),
        errors.file_error(f"{HOSTILE}/{HOSTILE}", "written", FileNotFoundError(errno.ENOENT, "none")),
        errors.CheckpointInUseError(HOSTILE),
        errors.MissingExtraError(HOSTILE, "parquet"),
        errors.UnknownSymbolError(HOSTILE),
        errors.UnknownSymbolError("x", HOSTILE),
        errors.UnknownSymbolsError([(HOSTILE, None), ("x", HOSTILE)]),
        SkippedLinesWarning(Path(HOSTILE), 3, f"line 2: {HOSTILE}"),
        ChosenMatrixWarning(Path(HOSTILE), HOSTILE, (1, 2)),
    ],
    ids=lambda raised: type(raised).__name__,
)
def test_a_message_is_one_line_that_is_safe_to_print(raised):
    assert ESCAPED in str(raised)
    assert str(raised).isprintable()
    in_a_traceback = "".join(traceback.format_exception_only(raised))
    assert in_a_traceback.removesuffix("\n").isprintable()


def test_no_error_prints_a_message_that_was_not_made_safe():
    assert [kind for kind in [*OURS, HeaderError] if "__str__" in vars(kind)] == [errors.KdcodeError]
