import copy
import pickle
from pathlib import Path

import pytest

from kdcode import errors
from kdcode.formats import SkippedLinesWarning
from kdcode.safetensors_header import HeaderError


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (errors.OptionError, ValueError),
        (errors.TableError, ValueError),
        (errors.RowError, IndexError),
        (errors.FormatError, ValueError),
        (errors.StorageError, ValueError),
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
        "reading Parquet needs an optional dependency: pip install 'kdcode[parquet]'"
    )


PLAIN = [kind for kind in vars(errors).values() if isinstance(kind, type) and "__init__" not in vars(kind)]


@pytest.mark.parametrize("copied", [copy.copy, lambda raised: pickle.loads(pickle.dumps(raised))])  # noqa: S301
@pytest.mark.parametrize(
    "raised",
    [
        *(kind("what was wrong") for kind in PLAIN),
        HeaderError("what was wrong"),
        errors.MissingExtraError("reading Parquet", "parquet"),
        errors.UnknownSymbolError("x"),
        errors.UnknownSymbolError("King", "king"),
        SkippedLinesWarning(Path("a.txt"), 3, "line 2: too few numbers"),
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
