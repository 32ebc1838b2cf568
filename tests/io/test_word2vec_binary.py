"""word2vec binary: both habits of ending a row, and every way a file can lie about its size."""

import gzip
import struct

import numpy as np
import pytest

import kdcode
from kdcode.errors import FormatError
from kdcode.io import SkippedLinesWarning
from kdcode.table import VectorTable


def binary(rows, dim, symbols, end=b"", values=None):
    body = b"".join(
        symbol + b" " + struct.pack(f"<{dim}f", *(values or range(row, row + dim))) + end
        for row, symbol in enumerate(symbols)
    )
    return f"{rows} {dim}\n".encode() + body


def refusal(path, content, **options):
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, format="word2vec-binary", **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_rows_with_and_without_line_breaks(tmp_path, end):
    path = tmp_path / "a.bin"
    path.write_bytes(binary(3, 2, [b"</s>", "日本".encode(), b"x"], end))
    table = kdcode.read(path)
    assert list(table.symbols) == ["</s>", "日本", "x"]
    assert table.matrix.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_numbers_whose_bytes_are_spaces_and_line_breaks(tmp_path):
    values = [struct.unpack("<f", b"    ")[0], struct.unpack("<f", b"\n\n\n\n")[0]]
    path = tmp_path / "a.bin"
    path.write_bytes(binary(2, 2, [b"a", b"b"], values=values))
    assert kdcode.read(path).matrix.tolist() == [values, values]


def test_rows_that_cross_blocks(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(binary(50, 7, [b"symbol%d" % row for row in range(50)], b"\n"))
    whole = kdcode.read(path)
    for size in (1, 3, 64):
        monkeypatch.setattr("kdcode.io.lines.BLOCK_BYTES", size)
        pieces = kdcode.read(path, format="word2vec-binary")
        assert list(pieces.symbols) == list(whole.symbols)
        assert np.array_equal(pieces.matrix, whole.matrix)


def test_gzipped_binary_is_read_as_it_is(tmp_path):
    path = tmp_path / "GoogleNews.bin.gz"
    path.write_bytes(gzip.compress(binary(2, 300, [b"a", b"b"], values=[0.0] * 300)))
    assert path.stat().st_size < 2 * 300 * 4 / 10
    assert list(kdcode.read(path).symbols) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "line 1: expected the header"),
        (b"a b\nxxxx", "line 1: expected the header"),
        (b"x" * 500, "line 1: expected the header"),
        (b"999999999999 300\nabc", "line 1: the header promises 999999999999 rows"),
        (b"1 999999999999999\nabc", "line 1: the header promises 1 rows of 999999999999999"),
        (binary(3, 2, [b"a", b"b"]), "line 1: the header promises 3 rows"),
        (binary(2, 2, [b"aaaaaaaaaaaaaaaaaaaa", b"b"])[:-1], "row 2: the file ends inside this row"),
        (binary(2, 2, [b"a" * 30, b"b"])[:-10], "row 2: the file ends inside this row"),
        (binary(1, 2, [b"a", b"b"]), "row 2: expected the end of the file"),
        (binary(1, 2, [b"a"]) + b"\n\n", "row 2: expected the end of the file"),
        (binary(2, 2, [b"a", b""]), "row 2: expected a symbol"),
        (binary(2, 2, [b"a", b"a"]), "row 2: the symbol 'a' stands in row 1 already"),
        (binary(2, 2, [b"a", b"\xff"]), "row 2: the symbol"),
        (binary(1, 2, [b"a"], values=[1, float("nan")]), "row 1: number 2 of 'a' is nan"),
        (b"1 1\n" + b"x" * 70_000, "row 1: expected a symbol and a space"),
    ],
)
def test_what_does_not_agree_is_refused_by_row(tmp_path, content, reason):
    assert reason in refusal(tmp_path / "a.bin", content)


def test_a_gzipped_header_cannot_promise_more_than_gzip_can_hold(tmp_path):
    message = refusal(tmp_path / "a.bin.gz", gzip.compress(b"999999999999 300\nabc"))
    assert "line 1: the header promises" in message


def test_skip_and_limit(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(binary(4, 2, [b"a", b"\xff", b"c", b"d"]))
    with pytest.warns(SkippedLinesWarning, match="row 2") as caught:
        table = kdcode.read(path, on_bad_line="skip", limit=2)
    assert list(table.symbols) == ["a", "c"]
    assert table.matrix.tolist() == [[0, 1], [2, 3]]
    assert caught[0].message.count == 1
    assert caught[0].filename == __file__


def test_limit_reads_what_a_truncated_file_has(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(binary(2, 2, [b"a" * 30, b"b"])[:-3])
    assert len(kdcode.read(path, limit=1)) == 1


@pytest.mark.parametrize("symbol", ["", "a b", "a\nb", "\na", "x" * 70_000])
def test_symbols_that_would_not_come_back_are_not_written(tmp_path, symbol):
    with pytest.raises(FormatError, match="row 1: the symbol"):
        kdcode.write(VectorTable(["ok", symbol], np.ones((2, 3))), tmp_path / "a.bin")
    assert list(tmp_path.iterdir()) == []


def test_writes_the_bytes_of_word2vec(tmp_path):
    kdcode.write(VectorTable(["a", "é"], np.array([[1, 2], [3, 4]])), tmp_path / "a.bin")
    expected = b"2 2\na " + struct.pack("<2f", 1, 2) + b"\n\xc3\xa9 " + struct.pack("<2f", 3, 4) + b"\n"
    assert (tmp_path / "a.bin").read_bytes() == expected
