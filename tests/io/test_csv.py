"""CSV and TSV as they come from pandas, numpy, spreadsheets and scripts."""

import csv

import numpy as np
import pandas as pd
import pytest
from counted_work import calls_made
from hypothesis import given, settings
from hypothesis import strategies as st

import kdcode
from kdcode.errors import FormatError
from kdcode.io import SkippedLinesWarning
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

ROWS = {"king": [0.5, -1.25], "queen": [3.0, 4e-05]}


@pytest.fixture
def file(tmp_path):
    """A file with this text."""

    def make(text, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "lines",
    [
        ["king,0.5,-1.25", "queen,3,4e-05"],
        ["word,x,y", "king,0.5,-1.25", "queen,3,4e-05"],
        ['"word","x","y"', '"king","0.5","-1.25"', '"queen","3","4e-05"'],
        [",0,1", "king,0.5,-1.25", "queen,3,4e-05"],
        ["king, 0.5, -1.25", "queen ,3 , 4e-05 "],
        ["king,+.5,-1.25", "", "queen,3.,4E-5", ""],
    ],
)
def test_delimiters_headers_quotes_and_line_ends(file, name, delimiter, end, lines):
    table = kdcode.read(file("".join(line + end for line in lines).replace(",", delimiter), name))
    assert [symbol.strip() for symbol in table.symbols] == list(ROWS)
    assert np.array_equal(table.matrix, np.array(list(ROWS.values()), dtype=np.float32))


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_writes(tmp_path, index):
    frame = pd.DataFrame(np.arange(12).reshape(3, 4) / 8, index=["x", "y", "z"])
    (frame if index else frame.rename_axis("word").reset_index()).to_csv(tmp_path / "a.csv", index=index)
    table = kdcode.read(tmp_path / "a.csv")
    assert list(table.symbols) == ["x", "y", "z"]
    assert np.array_equal(table.matrix, frame.to_numpy())


def test_numbers_alone_are_unnamed_rows(tmp_path, file):
    matrix = np.arange(12).reshape(4, 3) / 8
    np.savetxt(tmp_path / "a.csv", matrix, delimiter=",")
    pd.DataFrame(matrix).to_csv(tmp_path / "b.csv", index=False)
    pd.DataFrame(matrix.astype(int), columns=["x0", "x1", "x2"]).to_csv(tmp_path / "c.csv", index=False)
    for name, expected in (("a.csv", matrix), ("b.csv", matrix), ("c.csv", matrix.astype(int))):
        table = kdcode.read(tmp_path / name)
        assert isinstance(table.symbols, RowNumbers)
        assert np.array_equal(table.matrix, expected)
    assert len(kdcode.read(tmp_path / "a.csv", limit=2)) == 2


def test_integers_and_decimals_under_a_name_of_symbols_are_symbols(file):
    assert list(kdcode.read(file("12,0.5,1.5\n7,0.25,3\n")).symbols) == ["12", "7"]
    assert list(kdcode.read(file("id,x,y\n1.5,0.5,1.5\n2.5,0.25,3\n")).symbols) == ["1.5", "2.5"]


def test_a_column_of_symbols_by_name_or_number(file):
    path = file("x,word,y\n1,a,2\n3,b,4\n")
    assert kdcode.read(path, symbol_column="word")["b"].tolist() == [3, 4]
    assert refusal(path, symbol_column="wrod") == (
        "no column is called 'wrod', as symbol_column= asks; the columns are x, word, y"
    )
    headless = file("1,2,a\n3,4,b\n")
    assert kdcode.read(headless, symbol_column="3")["b"].tolist() == [3, 4]
    assert "give a number from 1 to 3" in refusal(headless, symbol_column="4")


@pytest.mark.parametrize("lists", ["[1.5, 2]", "[1.5,2]", "1.5, 2", "[1.5 2.0]"])
def test_vectors_in_one_column(file, lists):
    path = file(f'id,text,embedding\n7,"a, b","{lists}"\n8,c,"{lists.replace("2", "3")}"\n')
    asked = {} if "[" in lists else {"vector_column": "embedding"}
    table = kdcode.read(path, **asked)
    assert list(table.symbols) == ["7", "8"]
    assert table.matrix.tolist() == [[1.5, 2], [1.5, 3]]
    assert kdcode.read(path, symbol_column="text", **asked)["a, b"].tolist() == [1.5, 2]


def test_lists_of_other_lengths_are_refused_even_if_the_total_is_right(file):
    path = file('a,"[1,2]"\nb,"[1,2,3]"\nc,"[1]"\n')
    assert refusal(path) == "line 2: expected 2 numbers in the list as in the first row, found 3"


def test_a_byte_order_mark_and_gzip(file, tmp_path):
    assert list(kdcode.read(file(b"\xef\xbb\xbfa,1\nb,2\n")).symbols) == ["a", "b"]
    kdcode.write(VectorTable(["a", "b"], np.ones((2, 3))), tmp_path / "b.tsv.gz")
    assert kdcode.read(tmp_path / "b.tsv.gz")["b"].tolist() == [1, 1, 1]


def test_symbols_over_several_lines_and_the_lines_after_them(file):
    text = 'word,x,y\n"a\nb ""c""",1,2\nd,3,4\n'
    assert list(kdcode.read(file(text)).symbols) == ['a\nb "c"', "d"]
    assert refusal(file(text + "d,5,6\n")).startswith("line 5: the symbol 'd' stands in line 4 already")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("word,x,y\n", "expected at least one row after the header"),
        ("a\nb\n", "line 1: expected a symbol and its numbers, separated by commas or tabs, found 'a'"),
        ("a,1,2\nb,3\n", "line 2: expected 3 fields as in the first line, found 2"),
        ("a,1,2\nb,3,4,5\n", "line 2: expected 3 fields as in the first line, found 4"),
        ("word,x,y\na,1,2\nb,3,\n", "line 3: column 3 (y) of 'b' is '', expected a finite decimal number"),
        ("a,1,2\nb,3,nan\n", "line 2: column 3 of 'b' is 'nan', expected a finite decimal number"),
        ("a,nan,nan\nb,3,4\n", "line 1: column 2 of 'a' is 'nan', expected a finite decimal number"),
        ("a,1,2\nb,3,NN\n", "line 2: column 3 of 'b' is 'NN', expected"),
        ("a,1,2\nb,3,1 2\n", "line 2: column 3 of 'b' is '1 2', expected"),
        ("a,1,2\nb,3,1e39\n", "line 2: column 3 of 'b' is '1e39', too large for float32"),
        ('a,1,2\nb,"3,5",4\n', "line 2: column 2 of 'b' is '3,5', expected"),
        ("a,1,2\n,3,4\n", "line 2: expected a symbol in column 1, found an empty field"),
        ("a,1,2\na,3,4\n", "line 2: the symbol 'a' stands in line 1 already"),
        (b"a,1,2\nb\xff,3,4\n", "line 2: the symbol 'b\ufffd' is not UTF-8: byte 0xff"),
        ('a,1,2\n"b,3,4\nc,5,6\n', "line 2: unexpected end of data; a symbol with a quote"),
        ('a,1,2\n"b"c,3,4\n', "line 2: ',' expected after '\"'; a symbol with a quote"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(file, text, reason):
    assert refusal(file(text)).startswith(reason)


def test_bad_lines_are_skipped_where_asked(file):
    path = file("word,x,y\na,1,2\nb,,4\na,5,6\nc,7,8\n")
    with pytest.warns(SkippedLinesWarning, match=r"skipped 2 bad .* line 3: column 2 \(x\) of 'b' is ''"):
        assert list(kdcode.read(path, on_bad_line="skip").symbols) == ["a", "c"]
    with pytest.warns(SkippedLinesWarning):
        assert list(kdcode.read(path, on_bad_line="skip", limit=2).symbols) == ["a", "c"]


@settings(max_examples=100)
@given(
    words=st.lists(st.text(st.sampled_from('ab,\t"\n é'), min_size=1, max_size=5), min_size=1, max_size=5, unique=True),
    delimiter=st.sampled_from([",", "\t"]),
)
def test_what_pythons_csv_writes_is_read(tmp_path, words, delimiter):
    path = tmp_path / ("a.csv" if delimiter == "," else "a.tsv")
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=delimiter).writerows([word, row, 0.5] for row, word in enumerate(words))
    table = kdcode.read(path)
    assert list(table.symbols) == words
    assert table.matrix[:, 0].tolist() == list(range(len(words)))


def test_what_is_written_is_read_by_pandas(tmp_path):
    symbols = ["a", "b,c", 'd "e"', "f\tg"]
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        kdcode.write(VectorTable(symbols, np.arange(8).reshape(4, 2) / 8), tmp_path / name)
        frame = pd.read_csv(tmp_path / name, sep=separator)
        assert list(frame.columns) == ["symbol", "v0", "v1"]
        assert frame["symbol"].tolist() == symbols
        assert frame["v1"].tolist() == [0.125, 0.375, 0.625, 0.875]


def test_numbers_are_not_read_one_by_one(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(5000, 100)).astype(np.float32)
    kdcode.write(VectorTable([f"w{row}" for row in range(5000)], matrix), tmp_path / "a.csv")
    tables = []
    assert calls_made(lambda: tables.append(kdcode.read(tmp_path / "a.csv"))) < 40 * 5000  # not one for each of 500,000
    assert np.array_equal(tables[0].matrix, matrix)


@pytest.mark.parametrize("blank", ["", " ", "   "])
@pytest.mark.parametrize("row", ["b,{},4", "b,3,{}"])
def test_a_blank_field_is_no_number(file, blank, row):
    path = file(f"symbol,x,y\na,1,2\n{row.format(blank)}\nc,5,6\n")
    with pytest.raises(FormatError, match=r"line 3: column [23] \([xy]\) of 'b' is ''"):
        kdcode.read(path)
    with pytest.warns(SkippedLinesWarning):
        assert list(kdcode.read(path, on_bad_line="skip").symbols) == ["a", "c"]
