"""The files of --weights: a symbol and a number in each line, or numbers alone."""

import gzip

import numpy as np
import pytest

import kdcode
from kdcode.cli.files import with_weights
from kdcode.errors import KdcodeError

NEXT_LINE, NO_BREAK, LINE_SEPARATOR = "\u0085", "\u00a0", "\u2028"
SYMBOLS = ["king", "new york", f"a{NEXT_LINE}b", f"c{NO_BREAK}d", f"e{LINE_SEPARATOR}f", f"{NO_BREAK}", "tab\tbed"]


@pytest.fixture
def table():
    return kdcode.VectorTable(SYMBOLS, np.eye(len(SYMBOLS)))


@pytest.fixture
def weights(table, tmp_path):
    """The weights that a file with these bytes gives."""

    def read(content: bytes) -> list[float]:
        path = tmp_path / "weights.txt"
        path.write_bytes(content)
        return with_weights(table, str(path)).weights.tolist()

    return read


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_only_a_line_feed_ends_a_line_and_only_spaces_and_tabs_separate(weights, separator, end):
    lines = [f"{symbol}{separator}{number}{end}" for number, symbol in enumerate(SYMBOLS, 1)]
    assert weights("".join(reversed(lines)).encode()) == [1, 2, 3, 4, 5, 6, 7]


def test_symbols_that_are_not_named_weigh_nothing_and_unknown_ones_are_passed_over(weights):
    assert weights(b"king 2.5\n\nunheard-of 7\n") == [2.5, 0, 0, 0, 0, 0, 0]


def test_numbers_alone_are_for_the_rows_in_order(weights):
    assert weights(b"7\n6\n5\n4\n3\n2\n1e0\n") == [7, 6, 5, 4, 3, 2, 1]


def test_a_gzipped_file(weights):
    assert weights(gzip.compress(b"king 2\n"))[0] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"king 1\nqu\xe9en 2\n", "line 2: the symbol 'qu\ufffden' is not UTF-8: byte 0xe9"),
        (b"king 1\nqueen many\n", "line 2: expected a number of zero or more, found 'many'"),
        (b"king 1\nqueen -2\n", "line 2: expected a number of zero or more, found '-2'"),
        (b"king 1\nqueen inf\n", "line 2: expected a number of zero or more, found 'inf'"),
        (b"king 1\nqueen 1e39\n", "line 2: expected a number of zero or more, found '1e39'"),
        (b"king 1\n7\n", "line 2: expected a symbol and a number, found '7'"),
        (b"king 1\n\n 7\n", "line 3: expected a symbol and a number, found ' 7'"),
        (b"king 1\nking 2\n", "line 2: the symbol 'king' stands in line 1 already"),
        (b"1\n\nking 2\n", "line 3: expected a number of zero or more, found 'king 2'"),
        (b"1\xc2\xa02\n", "line 1: expected a number of zero or more, found '1\\xa02'"),
        (b"1\n2\n", "expected one number for each of 7 rows, found 2"),
        (b"prince 1\nduke 2\n", "none of its 2 symbols is in the table"),
        (b"\n\n", "the file is empty"),
    ],
)
def test_what_is_wrong_is_refused_with_the_file_and_the_line(weights, tmp_path, content, message):
    with pytest.raises(KdcodeError) as refused:
        weights(content)
    assert str(refused.value).startswith(f"{tmp_path / 'weights.txt'}: {message}")
