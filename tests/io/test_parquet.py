"""Parquet files of several shapes."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kdcode
from kdcode.errors import FormatError, MissingExtraError
from kdcode.io.parquet import values_in_row_groups
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

ROWS = [[0.5, 1.5], [2.0, -3.0], [4.0, 5.0]]


def save(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 2), pa.list_(pa.float16())]
)
@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_first_text_and_first_list_of_floats(tmp_path, kind, text):
    rows = [np.asarray(row, dtype=np.float16) for row in ROWS] if kind.value_type == pa.float16() else ROWS
    columns = {
        "id": pa.array([7, 8, 9]),
        "word": pa.array(["x", "y z", "é"], text),
        "tags": pa.array([["q"], [], []]),
        "vec": pa.array(rows, kind),
        "vec2": pa.array([[9.0]] * 3),
    }
    table = kdcode.read(save(tmp_path / "a.parquet", columns))
    assert list(table.symbols) == ["x", "y z", "é"]
    assert table.matrix.tolist() == ROWS
    assert table.matrix.dtype == np.float32


def test_columns_by_name_and_integers_as_symbols(tmp_path):
    path = save(tmp_path / "a.parquet", {"s": ["a", "b"], "t": [10, 20], "u": [[1.0], [2.0]], "v": [[3.0], [4.0]]})
    table = kdcode.read(path, symbol_column="t", vector_column="v")
    assert list(table.symbols) == ["10", "20"]
    assert table.matrix.tolist() == [[3], [4]]


def test_without_text_rows_are_unnamed(tmp_path):
    assert isinstance(kdcode.read(save(tmp_path / "a.parquet", {"v": ROWS})).symbols, RowNumbers)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_a_column_per_number(tmp_path, kind):
    numbers = {f"x{place}": pa.array(np.array(column, dtype=kind.to_pandas_dtype())) for place, column in
               enumerate(np.array(ROWS).T)}  # fmt: skip
    table = kdcode.read(save(tmp_path / "a.parquet", {"word": ["x", "y z", "é"], **numbers, "tag": ["q"] * 3}))
    assert list(table.symbols) == ["x", "y z", "é"]
    assert table.matrix.tolist() == ROWS
    assert isinstance(kdcode.read(save(tmp_path / "b.parquet", numbers)).symbols, RowNumbers)
    path = save(tmp_path / "c.parquet", {"id": [7, 8, 9], **numbers})
    assert "name it with symbol_column=" in refusal(path)
    assert kdcode.read(path, symbol_column="id")["8"].tolist() == ROWS[1]


@pytest.mark.parametrize("limit", [1, 4, 5, 11, 12, 100])
def test_limit_within_and_across_row_groups(tmp_path, limit):
    values = np.arange(24, dtype=np.float32).reshape(12, 2)
    path = save(tmp_path / "a.parquet", {"s": list("abcdefghijkl"), "v": values.tolist()}, row_group_size=5)
    table = kdcode.read(path, limit=limit)
    assert "".join(table.symbols) == "abcdefghijkl"[:limit]
    assert np.array_equal(table.matrix, values[:limit])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"s": ["a", "b", "a"], "v": ROWS}, "row 2: the symbol 'a' stands in row 0 already"),
        ({"s": ["a", None, "c"], "v": ROWS}, "row 1: expected a symbol, found null"),
        ({"s": ["a", "b", "c"], "v": [[1.0, 2.0], None, [3.0, 4.0]]}, "row 1: expected a vector, found null"),
        ({"s": ["a", "b"], "v": [[1.0, 2.0], [3.0]]}, "row 1: expected 2 numbers as in row 0, found 1"),
        ({"s": ["a", "b"], "v": [[1.0, 2.0], [3.0, None]]}, "row 1: expected 2 numbers, found a null"),
        ({"s": ["a", "b"], "v": [[1.0, 2.0], [3.0, float("nan")]]}, "row 1 ('b') has a value"),
        ({"s": ["a", "b"], "v": [[1.0, 2.0], [3.0, 1e200]]}, "row 1 ('b') has a value"),
        ({"s": ["a"], "v": pa.array([[]], pa.list_(pa.float32()))}, "row 0: expected a vector, found an empty list"),
        ({"s": pa.array([], pa.string()), "v": pa.array([], pa.list_(pa.float32()))}, "the file is empty"),
        (
            {"s": ["a"], "n": [1]},
            "expected a column of lists of floats, or a column of floats per number; "
            "the columns are s (string), n (int64)",
        ),
        ({"s": ["a", "b"], "x": [1.0, None]}, "row 1: expected a number in the column 'x', found null"),
        ({"s": ["a", "b"], "x": [1.0, 2.0], "y": [0.0, 1e200]}, "row 1 ('b') has a value"),
        ({"n": [1, 2], "x": [1.0, 2.0]}, "the column 'n' holds integers beside 1 columns of floats: is it the symbols"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path, columns, reason):
    assert reason in refusal(save(tmp_path / "a.parquet", columns))


def test_text_that_is_not_utf8_is_refused_by_row(tmp_path):
    text = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    message = refusal(save(tmp_path / "a.parquet", {"s": text, "v": ROWS[:2]}))
    assert "row 1: the symbol" in message
    assert "is not UTF-8: byte 0xff" in message


def test_later_batches_are_numbered_from_the_start_of_the_file(tmp_path):
    rows = [[1.0, 2.0]] * 9000
    path = save(tmp_path / "a.parquet", {"s": [*map(str, range(8999)), "5"], "v": rows})
    assert "row 8999: the symbol '5' stands in row 5 already" in refusal(path)
    path = save(tmp_path / "b.parquet", {"v": [*rows[:-1], [1.0]]})
    assert "row 8999: expected 2 numbers" in refusal(path)


def test_columns_that_are_not_there_or_do_not_fit(tmp_path):
    path = save(tmp_path / "a.parquet", {"s": ["a"], "v": [[1.0]]})
    assert "expected 'w' to be a column of lists" in refusal(path, vector_column="w")
    assert "expected 's' to be a column of lists" in refusal(path, vector_column="s")
    assert "expected 'v' to be a column of text" in refusal(path, symbol_column="v")


def test_damaged_files(tmp_path):
    path = save(tmp_path / "a.parquet", {"s": ["a"], "v": [[1.0]]})
    good = path.read_bytes()
    for content in (b"", b"hello", good[:-9], good[: len(good) // 2]):
        path.write_bytes(content)
        assert "not a usable Parquet file" in refusal(path)


def test_column_names_that_are_not_utf8(tmp_path):
    path = save(tmp_path / "a.parquet", {"word": ["a"], "v": [[1.0]]})
    path.write_bytes(path.read_bytes().replace(b"word", b"\x87ord"))
    assert "not a usable Parquet file" in refusal(path)


def test_writes_columns_that_others_can_read(tmp_path):
    kdcode.write(VectorTable(["a b", "", "c\nd"], np.array(ROWS, dtype=np.float32)), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"symbol": ["a b", "", "c\nd"], "vector": ROWS}
    assert list(kdcode.read(tmp_path / "a.parquet").symbols) == ["a b", "", "c\nd"]


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = save(tmp_path / "a.parquet", {"s": ["a"], "v": [[1.0]]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading Parquet .*pip install 'pyarrow"):
        kdcode.read(path)
    with pytest.raises(MissingExtraError, match=r"writing Parquet .*pip install 'pyarrow"):
        kdcode.write(VectorTable(None, np.ones((1, 1))), tmp_path / "b.parquet")
    assert not (tmp_path / "b.parquet").exists()


VECTORS = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))
NAMES = pa.array(["a", "b"])
NUMBERS = pa.array([1.0, 2.0])


def save_columns(path, *columns):
    pq.write_table(pa.Table.from_arrays([column for _, column in columns], [name for name, _ in columns]), path)
    return path


@pytest.mark.parametrize(
    "columns",
    [
        [("s", NAMES), ("v", VECTORS), ("v", VECTORS)],
        [("s", NAMES), ("s", NAMES), ("v", VECTORS)],
        [("", NAMES), ("", VECTORS)],
        [("s", NAMES), ("", VECTORS)],
        [("s.t", NAMES), ("v.w", VECTORS)],
        [("s", NAMES), ("v", VECTORS), ("v.x", NUMBERS)],
        [("x", VECTORS), ("x", NAMES)],
    ],
)
def test_names_of_columns_may_be_empty_or_appear_twice(tmp_path, columns):
    table = kdcode.read(save_columns(tmp_path / "a.parquet", *columns))
    assert table.symbols == ["a", "b"]
    assert table.matrix.tolist() == [[1, 2], [3, 4]]


def test_numbers_in_columns_of_one_name(tmp_path):
    path = save_columns(
        tmp_path / "a.parquet", ("x", NUMBERS), ("s", NAMES), ("x", pa.array([3.0, 4.0])), ("", NUMBERS)
    )
    table = kdcode.read(path)
    assert table.matrix.tolist() == [[1, 3, 1], [2, 4, 2]]
    assert table.symbols == ["a", "b"]


def test_a_name_that_is_asked_for_must_be_that_of_one_column(tmp_path):
    path = save_columns(tmp_path / "a.parquet", ("s", NAMES), ("s", NAMES), ("v", VECTORS), ("v", VECTORS))
    assert "expected 's' to be a column of text or integers; 2 columns have this name" in refusal(
        path, symbol_column="s"
    )
    assert "expected 'v' to be a column of lists of floats; 2 columns" in refusal(path, vector_column="v")


@pytest.mark.parametrize(
    "symbols",
    [
        NAMES.dictionary_encode(),
        NAMES.cast(pa.large_string()),
        NAMES.cast(pa.binary()),
        NAMES.cast(pa.large_binary()),
        NAMES.cast(pa.binary()).dictionary_encode(),
        pa.array([b"a", b"b"], pa.binary(1)),
        NAMES.cast(pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_symbols_of_every_type_of_text(tmp_path, symbols):
    path = save_columns(tmp_path / "a.parquet", ("n", pa.array([7, 8])), ("s", symbols), ("v", VECTORS))
    assert kdcode.read(path).symbols == ["a", "b"]
    assert kdcode.read(path, symbol_column="s", limit=1).symbols == ["a"]


def test_integers_of_a_dictionary_are_symbols_where_asked(tmp_path):
    path = save_columns(tmp_path / "a.parquet", ("s", pa.array([7, 8]).dictionary_encode()), ("v", VECTORS))
    assert kdcode.read(path, symbol_column="s").symbols == ["7", "8"]


def test_text_is_taken_before_bytes(tmp_path):
    path = save_columns(tmp_path / "a.parquet", ("hash", pa.array([b"\xff", b"\xfe"])), ("s", NAMES), ("v", VECTORS))
    assert kdcode.read(path).symbols == ["a", "b"]
    assert "row 0: the symbol" in refusal(path, symbol_column="hash")


@pytest.mark.parametrize("groups", [1, 7, 100])
def test_the_footer_says_how_many_values_there_are(tmp_path, groups):
    rows = 1000
    lists = pa.array([[1.0] * (row % 5) for row in range(rows)], pa.list_(pa.float32()))
    table = pa.table({"s": pa.array(map(str, range(rows))), "v": lists, "n": pa.array(range(rows))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows // groups)
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    expected = [
        max(metadata.row_group(group).column(place).num_values for place in range(3))
        for group in range(metadata.num_row_groups)
    ]
    with (tmp_path / "a.parquet").open("rb") as stream:
        assert values_in_row_groups(stream) == expected


def test_a_footer_that_makes_arrow_end_the_process_is_refused(tmp_path):
    path = save_columns(tmp_path / "a.parquet", ("s", NAMES), ("v", VECTORS))
    good = path.read_bytes()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    refused = 0
    for place in range(footer, len(good) - 8):
        for change in (1, 128):
            damaged = bytearray(good)
            damaged[place] ^= change
            path.write_bytes(damaged)
            try:
                assert len(kdcode.read(path)) <= 2
            except FormatError:
                refused += 1
    assert refused > 300
