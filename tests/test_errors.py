import pytest

from kdcode import errors


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
