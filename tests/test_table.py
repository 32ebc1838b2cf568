import numpy as np
import pytest

from kdcode.errors import TableError, UnknownSymbolError
from kdcode.symbols import RowNumbers, StoredSymbols
from kdcode.table import VectorTable

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_symbols_and_vectors_row_by_row():
    table = VectorTable(["a", "b", "ç"], MATRIX)
    assert len(table) == 3
    assert table.embedding_dim == 2
    assert table["b"].tolist() == [2, 3]
    assert table["b"].dtype == np.float32
    assert table.row_of("ç") == 2


def test_rows_without_symbols_are_called_by_their_number():
    table = VectorTable(None, MATRIX)
    assert list(table.symbols) == ["0", "1", "2"]
    assert table["2"].tolist() == [4, 5]
    with pytest.raises(UnknownSymbolError, match="'3'"):
        table.row_of("3")


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
def test_any_real_numbers_come_out_as_float32(dtype):
    table = VectorTable(None, MATRIX.astype(dtype))
    assert table.matrix.dtype == dtype
    assert [vectors.dtype.name for _, vectors in table.chunks()] == ["float32"]
    assert table["1"].dtype == np.float32


def test_a_memory_map_is_not_copied(tmp_path):
    np.save(tmp_path / "m.npy", MATRIX)
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    assert np.shares_memory(VectorTable(None, mapped).matrix, mapped)


def test_chunks_are_the_table_in_order():
    pieces = list(VectorTable(["a", "b", "c"], MATRIX).chunks(2))
    assert [list(symbols) for symbols, _ in pieces] == [["a", "b"], ["c"]]
    np.testing.assert_array_equal(np.concatenate([vectors for _, vectors in pieces]), MATRIX)


def test_head_shares_memory():
    table = VectorTable(["a", "b", "c"], MATRIX)
    assert list(table.head(2).symbols) == ["a", "b"]
    assert np.shares_memory(table.head(2).matrix, MATRIX)
    assert table.head(3) is table
    assert len(VectorTable(None, MATRIX).head(1)) == 1
    with pytest.raises(TableError, match="at least 1 row, got 0"):
        table.head(0)


@pytest.mark.parametrize(
    ("symbols", "matrix", "message"),
    [
        (None, [1.0, 2.0], r"got shape \(2,\)"),
        (None, np.empty((0, 3)), r"got shape \(0, 3\)"),
        (None, np.empty((3, 0)), r"got shape \(3, 0\)"),
        (None, [[1j]], "complex128"),
        (None, [["x"]], "<U1"),
        (["a"], MATRIX, "1 symbols for 3 rows"),
        (["a", "b", "a"], MATRIX, "'a' stands in row 2 and again"),
        (["a", 7, "c"], MATRIX, "symbol 1 is int 7"),
        (["a", "\ud800", "c"], MATRIX, "symbol 1 .*UTF-8"),
        (None, [[1.0, 2.0], [np.nan, 0.0]], r"row 1 \('1'\) .*finite"),
        (["a"], [[np.inf]], r"row 0 \('a'\)"),
        (["a"], [[1e39]], "finite float32"),
    ],
)
def test_unusable_tables_are_refused(symbols, matrix, message):
    with pytest.raises(TableError, match=message):
        VectorTable(symbols, matrix)


def test_a_bad_row_is_found_beyond_the_first_chunk():
    matrix = np.zeros((20_000, 1), dtype=np.float32)
    matrix[15_000] = np.nan
    with pytest.raises(TableError, match="row 15000 "):
        VectorTable(None, matrix)


def test_an_unknown_symbol_is_a_key_error():
    with pytest.raises(KeyError, match="no symbol 'x'"):
        VectorTable(["a"], [[1.0]])["x"]


def test_symbols_are_packed_once(monkeypatch):
    built = []
    build = StoredSymbols.build
    monkeypatch.setattr(StoredSymbols, "build", lambda symbols: built.append(1) or build(symbols))
    table = VectorTable(["b", "a", "c"], MATRIX)
    assert not built  # and not before they are needed
    assert table.packed_symbols == ["b", "a", "c"]
    assert table.packed_symbols is table.packed_symbols
    assert built == [1]


def test_packed_symbols_stay_as_they_are():
    stored = StoredSymbols.build(["b", "a", "c"])
    assert VectorTable(stored, MATRIX).packed_symbols is stored
    unnamed = VectorTable(None, MATRIX)
    assert unnamed.packed_symbols is unnamed.symbols
    assert isinstance(unnamed.symbols, RowNumbers)


@pytest.mark.parametrize("dtype", ["U", object])
def test_symbols_may_be_an_array(dtype):
    table = VectorTable(np.array(["a", "b", "ç"], dtype=dtype), MATRIX)
    assert table.symbols == ["a", "b", "ç"]
    assert table.row_of("b") == 1
    assert table.head(2).symbols == ["a", "b"]
    assert all(type(symbol) is str for symbol in table.symbols)


def test_weights_come_along():
    table = VectorTable(["a", "b", "c"], np.eye(3), [5, 0, 0.5])
    assert table.weights.dtype == np.float32
    assert table.head(2).weights.tolist() == [5, 0]
    assert VectorTable(None, np.eye(3)).weights is None


@pytest.mark.parametrize(
    "weights", [[1, 2], [[1], [2], [3]], [1, 2, -1], [1, 2, np.nan], [1, np.inf, 2], [1, 1e300, 2], [0, 0, 0]]
)
def test_weights_that_cannot_be_are_refused(weights):
    with pytest.raises(TableError, match="weights: expected"):
        VectorTable(None, np.eye(3), weights)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_rows_added_at_the_end_and_at_the_start(dtype):
    table = VectorTable(["a", "b", "c"], MATRIX.astype(dtype), [1, 2, 6])
    mean = table.matrix.mean(axis=0)
    more = table.with_rows({"<pad>": 0, "<unk>": mean})
    assert list(more) == ["a", "b", "c", "<pad>", "<unk>"]
    assert more["<pad>"].tolist() == [0, 0]
    assert more[-1].tolist() == [2, 3]
    assert more.weights.tolist() == [1, 2, 6, 3, 3]
    assert more.matrix.dtype == ("float32" if dtype == "int32" else dtype)
    first = table.with_rows({"<pad>": 0.5}, at="start")
    assert list(first) == ["<pad>", "a", "b", "c"]
    assert first.weights.tolist() == [3, 1, 2, 6]
    assert first.row_of("a") == 1
    assert first[0].tolist() == [0.5, 0.5]
    assert table.symbols == ["a", "b", "c"]


def test_a_row_too_large_for_the_type_of_the_table_is_refused():
    with pytest.raises(TableError, match=r"row 3 \('x'\) has a value that is not a finite"):
        VectorTable(["a", "b", "c"], MATRIX.astype(np.float16)).with_rows({"x": [1e6, 0]})


def test_a_selection_takes_weights_and_type_along():
    table = VectorTable(["a", "b", "c"], MATRIX.astype(np.float16), [5, 0, 0.5])
    part = table.select(["c", "a"])
    assert part.matrix.dtype == np.float16
    assert part.matrix.tolist() == [[4, 5], [0, 1]]
    assert part.weights.tolist() == [0.5, 5]


def test_the_repr_is_short_whatever_the_symbols():
    table = VectorTable(["x" * 1000, "y" * 1000], np.eye(2))
    assert repr(table) == "<VectorTable: 2 symbols, 2 dimensions, float64>"


@pytest.mark.parametrize(("dtype", "bits"), [("float64", 0x7FF0000000000001), ("float16", 0x7C01)])
def test_a_signalling_nan_is_refused_without_a_warning(dtype, bits):
    matrix = np.ones((3, 2), dtype=dtype)
    matrix[1:2, 0] = np.array([bits], dtype=f"u{matrix.itemsize}").view(dtype)
    with pytest.raises(TableError, match=r"row 1 \('1'\) has a value that is not a finite"):
        VectorTable(None, matrix)
