"""word2vec text and fastText .vec: a header, and rows that must agree with it."""

import numpy as np
import pytest

import kdcode
from kdcode.errors import FormatError
from kdcode.io import SkippedLinesWarning
from kdcode.table import VectorTable

BOTH = pytest.mark.parametrize("name", ["word2vec-text", "fasttext"])


def refusal(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@BOTH
def test_reads_the_rows_after_the_header(tmp_path, name):
    path = tmp_path / "a"
    path.write_text("2 3\nking 1 2 3\nqueen 4 5 6\n")
    table = kdcode.read(path, format=name)
    assert list(table.symbols) == ["king", "queen"]
    assert table.matrix.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_fasttext_lines_end_with_a_space(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("2 2\n</s> 0.5 1.5 \n, -1 2 \n")
    table = kdcode.read(path)
    assert list(table.symbols) == ["</s>", ","]
    assert table.matrix.tolist() == [[0.5, 1.5], [-1, 2]]


@BOTH
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        ("a 1 2\nb 3 4\n", "line 1: expected the header 'rows dimension'"),
        ("2 2 2\na 1 2\n", "line 1: expected the header"),
        ("-1 2\na 1 2\n", "line 1: expected the header"),
        ("0 2\n", "line 1: expected the header"),
        ("9" * 30 + " 2\na 1 2\n", "line 1: expected the header"),
        ("3 2\na 1 2\nb 3 4\n", "line 4: the file ends after 2 rows, line 1 promises 3"),
        ("3 2\n", "line 2: the file ends after 0 rows"),
        ("1 2\na 1 2\nb 3 4\n", "line 3: expected the end of the file after the 1 rows"),
        ("2 2\na 1 2\nb 3\n", "line 3: expected 2 numbers after the symbol, found 1"),
        ("2 2\na 1 2\nb 3 4 5\n", "line 3: expected 2 numbers after the symbol, found 3"),
        ("2 2\na 1 2\nb c 3 4\n", "line 3: expected 2 numbers after the symbol, found 3"),
        ("2 2\na 1 2\nb 3 x\n", "line 3: number 2 of 'b' is 'x'"),
        ("2 2\na 1 2\nb nan 4\n", "line 3: number 1 of 'b' is 'nan'"),
        ("2 2\na 1 2\n\n", "line 3: the line is empty"),
        ("2 2\na 1 2\na 3 4\n", "line 3: the symbol 'a' stands in line 2 already"),
        (b"2 2\na 1 2\n\xe9t\xe9 3 4\n", "line 3: the symbol"),
        ("2 999999999999\na 1 2\nb 3 4\n", "line 2: expected 999999999999 numbers"),
    ],
)
def test_what_does_not_agree_is_refused_by_line(tmp_path, name, content, reason):
    assert reason in refusal(tmp_path / "a", content, format=name)


def test_empty_lines_at_the_end_are_no_rows(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("1 2\na 1 2\n\n\n")
    assert len(kdcode.read(path)) == 1


def test_limit_reads_what_a_truncated_file_has(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("5 2\na 1 2\nb 3 4\n")
    assert list(kdcode.read(path, limit=2).symbols) == ["a", "b"]
    with pytest.raises(FormatError, match="promises 5"):
        kdcode.read(path, limit=3)


def test_skipped_lines_count_as_rows_of_the_header(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("3 2\na 1 2\nb 3\nc 5 6\n\n")
    with pytest.warns(SkippedLinesWarning, match="skipped 1 bad") as caught:
        assert list(kdcode.read(path, on_bad_line="skip").symbols) == ["a", "c"]
    assert caught[0].filename == __file__


def test_skipping_does_not_hide_truncation(tmp_path):
    assert "promises 9" in refusal(tmp_path / "a.vec", "9 2\na 1 2\nb 3\n", on_bad_line="skip")


@BOTH
@pytest.mark.parametrize("symbol", ["", "a b", "a\nb"])
def test_symbols_that_would_not_come_back_are_not_written(tmp_path, name, symbol):
    with pytest.raises(FormatError) as caught:
        kdcode.write(VectorTable(["ok", symbol], np.ones((2, 3))), tmp_path / "a", format=name)
    assert f"row 1: the symbol {symbol!r}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_writes_header_and_lines(tmp_path, name):
    kdcode.write(VectorTable(["a", "b"], np.array([[0.1, -2], [1, 3]], dtype=np.float32)), tmp_path / "a", format=name)
    assert (tmp_path / "a").read_text() == "2 2\na 0.1 -2.0\nb 1.0 3.0\n"
