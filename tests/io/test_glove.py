"""GloVe text: what it reads, what it refuses and how it says so."""

import numpy as np
import pytest

import kdcode
from kdcode.errors import FormatError
from kdcode.io import SkippedLinesWarning
from kdcode.table import VectorTable


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def refusal(path, content, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(save(path, content), **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_reads_symbols_and_numbers_in_order(tmp_path):
    table = kdcode.read(save(tmp_path / "a.txt", "the 0.5 -1.25\nof 1e-3 2\n"))
    assert list(table.symbols) == ["the", "of"]
    assert table.matrix.dtype == np.float32
    assert table.matrix.tolist() == [[0.5, -1.25], [np.float32(1e-3), 2.0]]


def test_the_last_line_may_lack_its_end(tmp_path):
    assert list(kdcode.read(save(tmp_path / "a.txt", "a 1 2\nb 3 4")).symbols) == ["a", "b"]


def test_symbols_with_spaces_are_split_from_the_right(tmp_path):
    text = "the 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\nof 1 1 1\n"
    table = kdcode.read(save(tmp_path / "a.txt", text))
    assert list(table.symbols) == ["the", ". . .", "at name@domain.com", "of"]
    assert table["at name@domain.com"].tolist() == [7, 8, 9]


def test_a_file_of_phrases_alone_has_the_right_dimension(tmp_path):
    table = kdcode.read(save(tmp_path / "a.txt", "new york 1 2\nlos angeles 3 4\n"))
    assert list(table.symbols) == ["new york", "los angeles"]
    assert table.embedding_dim == 2


def test_numbers_and_unusual_characters_are_symbols(tmp_path):
    names = ["1999", "-", "0.5", "x\u0085y", "a\u2028b", "c\u00a0d", "\ufeff", "日本", "nan"]
    text = "".join(f"{name} 1.5 2.5\n" for name in names)
    assert list(kdcode.read(save(tmp_path / "a.txt", text)).symbols) == names


def test_windows_line_ends_and_trailing_spaces_are_not_numbers(tmp_path):
    table = kdcode.read(save(tmp_path / "a.txt", "a 1 2 \r\nb 3 4\r\n"))
    assert table.matrix.tolist() == [[1, 2], [3, 4]]


def test_dimension_is_that_of_most_lines_so_a_wrong_first_line_is_the_one_refused(tmp_path):
    message = refusal(tmp_path / "a.txt", "a 1 2\nb 1 2 3\nc 1 2 3\n")
    assert "line 1: expected 3 numbers after the symbol, found 2" in message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x 1 2", "expected 3 numbers after the symbol, found 2"),
        ("x", "expected 3 numbers after the symbol, found 0"),
        ("x 1 2 3 4", "expected 3 numbers after the symbol, found 4"),
        ("x 1 two 3", "number 2 of 'x' is 'two', expected a finite decimal number"),
        ("x 1 nan 3", "number 2 of 'x' is 'nan', expected a finite decimal number"),
        ("x 1 2 inf", "number 3 of 'x' is 'inf', expected a finite decimal number"),
        ("x 1 1_0 3", "number 2 of 'x' is '1_0'"),
        ("x 1 0x10 3", "number 2 of 'x' is '0x10'"),
        ("x 1\t2  3", "number 1 of 'x' is '1\\t2'"),  # numpy alone reads three numbers here
        ("x 1-2 3 4", "number 1 of 'x' is '1-2'"),
        ("x 1 - 3", "number 2 of 'x' is '-'"),
        ("x 1 1e39 3", "number 2 of 'x' is '1e39', too large for float32"),
        ("x 1 1e999 3", "number 2 of 'x' is '1e999', too large for float32"),
        ("", "the line is empty"),
        ("x 1  3", "number 2 of 'x' is ''"),
        (" 1 2 3", "expected a symbol before the 3 numbers, found none"),
        ("b 7 8 9", "the symbol 'b' stands in line 2 already"),
        (b"x\xff 1 2 3", "is not UTF-8: byte 0xff"),
    ],
)
def test_a_bad_line_is_refused_by_number_and_reason(tmp_path, line, reason):
    raw = line if isinstance(line, bytes) else line.encode()
    message = refusal(tmp_path / "a.txt", b"a 1 2 3\nb 4 5 6\n" + raw + b"\nc 7 8 9\nd 1 1 1\n")
    assert "line 3: " in message
    assert reason in message


def test_lines_that_together_lack_the_numbers_of_a_whole_row(tmp_path):
    text = "a 1 2 3\nb 4 5 6\nc 1  3\nd  2 3\ne 1  3\nf 4 5 6\n"
    assert "line 3: number 2 of 'c' is ''" in refusal(tmp_path / "a.txt", text)


def test_a_bad_line_is_named_rightly_far_behind_the_first_block(tmp_path):
    lines = [f"w{row} {row}.5 {'1' * 30} 2" for row in range(60_000)]
    lines[54_321] = "w54321 1 2"
    path = tmp_path / "a.txt"
    assert sum(map(len, lines)) > 2 << 20
    assert "line 54322: expected 3 numbers" in refusal(path, "\n".join(lines))


def test_duplicates_in_different_blocks_name_both_lines(tmp_path):
    lines = [f"w{row} {row}.5 {'1' * 30} 2" for row in range(60_000)]
    lines[55_555] = "w7 1 2 3"
    assert "line 55556: the symbol 'w7' stands in line 8 already" in refusal(tmp_path / "a.txt", "\n".join(lines))


@pytest.mark.parametrize(
    ("content", "reason"),
    [("", "the file is empty"), ("hello\n", "line 1: expected a symbol and numbers"), ("\n\n", "line 1: expected")],
)
def test_a_file_without_rows_is_refused(tmp_path, content, reason):
    assert reason in refusal(tmp_path / "a.txt", content)


def test_a_header_read_as_glove_is_recognised(tmp_path):
    message = refusal(tmp_path / "a.txt", "2 3\na 1 2 3\nb 4 5 6\n", format="glove")
    assert "line 1" in message
    assert "format='word2vec-text'" in message


def test_a_file_that_is_one_endless_line_is_refused_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("kdcode.io.lines.MAX_LINE_BYTES", 3000)
    monkeypatch.setattr("kdcode.io.lines.BLOCK_BYTES", 1000)
    assert "line 2 is longer than 3000 bytes" in refusal(tmp_path / "a.txt", "a 1 2\n" + "x" * 10_000)


def test_skipping_leaves_out_bad_lines_and_says_how_many(tmp_path):
    path = save(tmp_path / "a.txt", "a 1 2\nb 1 x\nc 3 4\na 5 6\nd 7 8\n")
    with pytest.warns(SkippedLinesWarning) as caught:
        table = kdcode.read(path, on_bad_line="skip")
    assert list(table.symbols) == ["a", "c", "d"]
    assert table.matrix.tolist() == [[1, 2], [3, 4], [7, 8]]
    warning = caught[0].message
    assert len(caught) == 1
    assert warning.count == 2
    assert warning.first.startswith("line 2: number 2 of 'b' is 'x'")
    assert str(path) in str(warning)
    assert caught[0].filename == __file__


def test_skipping_everything_is_refused(tmp_path):
    path = save(tmp_path / "a.txt", b"\xff 1 2\n\xfe 3 4\n")
    with pytest.raises(FormatError, match="no usable row was found; 2 bad lines"):
        kdcode.read(path, on_bad_line="skip")


def test_limit_counts_rows_and_stops_before_later_faults(tmp_path):
    path = save(tmp_path / "a.txt", "a 1 2\nb 3 4\nc 5 x\n")
    assert list(kdcode.read(path, limit=2).symbols) == ["a", "b"]
    with pytest.raises(FormatError, match="line 3"):
        kdcode.read(path, limit=3)


def test_limit_does_not_count_skipped_lines(tmp_path):
    path = save(tmp_path / "a.txt", "a 1 2\nb 3 x\nc 5 6\nd 7 8\n")
    with pytest.warns(SkippedLinesWarning):
        assert list(kdcode.read(path, limit=2, on_bad_line="skip").symbols) == ["a", "c"]


@pytest.mark.parametrize("symbol", ["", "a\nb", "area 51", " 7", "x y\nz", "v 1e5"])
def test_symbols_that_would_not_come_back_are_not_written(tmp_path, symbol):
    path = tmp_path / "a.txt"
    with pytest.raises(FormatError) as caught:
        kdcode.write(VectorTable(["ok", symbol], np.ones((2, 3))), path)
    assert f"{path}: row 1: the symbol {symbol!r}" in str(caught.value)
    assert "parquet" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_symbol_in_a_later_chunk_is_named_by_its_row(tmp_path):
    table = VectorTable([*map(str, range(9000)), "a\nb"], np.ones((9001, 1)))
    with pytest.raises(FormatError, match="row 9000: the symbol"):
        kdcode.write(table, tmp_path / "a.txt")


def test_writes_the_lines_that_glove_has(tmp_path):
    kdcode.write(VectorTable(["a", "b c"], np.array([[0.1, -2], [1e-10, 3]], dtype=np.float32)), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "a 0.1 -2.0\nb c 1e-10 3.0\n"
