import copy
import pickle

import numpy as np
import pytest
from sample_tables import KINDS, coded_table, words

from kdcode import CodedTable
from kdcode.budget import Sizes
from kdcode.codebook import Codebook
from kdcode.composition import Linear, Product
from kdcode.errors import OptionError, RowError, StorageError, UnknownSymbolError
from kdcode.symbols import StoredSymbols
from kdcode.table import RowNumbers

CODEBOOK = np.array([[[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]], dtype=np.float32)
CODES = np.array([[0, 2], [2, 1], [0, 1]])


@pytest.fixture
def coded():
    return CodedTable.from_codes(["a", "b", "c"], CODES, CODEBOOK)


def test_looking_up_by_hand(coded):
    assert coded["a"].tolist() == [51, 62]
    assert coded["b"].dtype == np.float32
    assert coded.decode([2, 0]).tolist() == [[31, 42], [51, 62]]
    assert coded.code_of("b") == (2, 1)
    assert coded.row_of("c") == 2
    assert coded.symbols_at(np.array([2, 0])) == ["c", "a"]
    assert "a" in coded
    assert "x" not in coded
    assert repr(coded) == "<CodedTable: 3 symbols, 2 dimensions, K=3, D=2, linear>"


def test_what_it_is_made_of(coded):
    assert len(coded) == 3
    assert (coded.codebook_size, coded.code_length, coded.embedding_dim, coded.bits_per_symbol) == (3, 2, 2, 4)
    np.testing.assert_array_equal(coded.codes, CODES)
    assert coded.packed.tolist() == [[0b1000], [0b0110], [0b0100]]
    assert coded.sizes == Sizes(codes=3, codebook=48, composition=0, symbols=coded.symbols.nbytes)
    np.testing.assert_allclose(coded.norms, np.linalg.norm(coded.to_table().matrix, axis=1), rtol=1e-6)


def test_decode_keeps_the_shape_of_the_rows(coded):
    assert coded.decode(1).shape == (2,)
    assert coded.decode(np.array(1)).shape == (2,)
    assert coded.decode([[0, 1], [2, 2]]).shape == (2, 2, 2)
    assert coded.decode([]).shape == (0, 2)
    assert coded.decode(np.empty((3, 0), int)).shape == (3, 0, 2)
    assert coded.decode(np.array([1], dtype=np.uint64)).tolist() == [[35, 46]]


@pytest.mark.parametrize(("kind", "numbers"), KINDS)
def test_decoding_is_composing_the_codes(kind, numbers):
    table = coded_table(kind, numbers, rows=9000, size=5, length=3)  # more than one chunk
    composed = table.compose(table.codes)
    if table.scales is not None:
        composed = composed * table.scales.at(np.arange(9000))[:, None]
    np.testing.assert_array_equal(table.decode(np.arange(9000)), composed)
    assert table.compose(table.codes[:0]).shape == (0, 6)


@pytest.mark.parametrize("rows", [-1, 3, [0, 3], [[-1]]])
def test_rows_outside_the_table_are_refused(coded, rows):
    with pytest.raises(RowError, match=r"in \[0, 3\)"):
        coded.decode(rows)


@pytest.mark.parametrize("rows", [1.0, ["a"], True, None])
def test_rows_that_are_no_integers_are_refused(coded, rows):
    with pytest.raises(RowError, match="rows are integers"):
        coded.decode(rows)


def test_row_numbers_are_not_symbols(coded):
    with pytest.raises(OptionError, match="a symbol is a string, got 1; use decode"):
        coded[1]


def test_tables_without_symbols():
    table = coded_table(rows=3)
    np.testing.assert_array_equal(table["2"], table.decode(2))
    assert "2" in table
    assert "3" not in table
    assert table.symbols_at(np.array([1])) == ["1"]
    assert isinstance(table.to_table().symbols, RowNumbers)
    with pytest.raises(UnknownSymbolError):
        table["3"]


def test_a_table_of_one_row():
    table = CodedTable.from_codes(["only"], CODES[:1], CODEBOOK)
    assert table["only"].tolist() == [51, 62]
    assert len(CodedTable(table.symbols, table.packed, table.codebook, table.composition)) == 1


def test_symbols_that_share_a_code(coded):
    assert coded.symbols_with_code([0]) == ["a", "c"]
    assert coded.symbols_with_code([0, 1]) == ["c"]
    assert coded.symbols_with_code((1,)) == []
    for prefix, message in (([], "got 0"), ([0, 0, 0], "got 3"), ([3], "got 3"), ([0, -1], "got 0--1")):
        with pytest.raises(OptionError, match=message):
            coded.symbols_with_code(prefix)


def test_chunks_are_the_decoded_table_in_order():
    table = coded_table(rows=1000, symbols=words(1000))
    pieces = list(table.chunks(300))
    assert [len(symbols) for symbols, _ in pieces] == [300, 300, 300, 100]
    assert [symbol for symbols, _ in pieces for symbol in symbols] == words(1000)
    np.testing.assert_array_equal(np.concatenate([vectors for _, vectors in pieces]), table.decode(np.arange(1000)))
    assert [start for start, _ in table.code_chunks(300)] == [0, 300, 600, 900]
    np.testing.assert_array_equal(np.concatenate([codes for _, codes in table.code_chunks(300)]), table.codes)


def test_the_whole_table_decoded(coded):
    table = coded.to_table()
    assert table.symbols == ["a", "b", "c"]
    np.testing.assert_array_equal(table["b"], coded["b"])


def test_symbols_may_be_stored_ones_or_row_numbers():
    stored = StoredSymbols.build(["a", "b", "c"])
    assert CodedTable.from_codes(stored, CODES, CODEBOOK).symbols is stored
    with pytest.raises(OptionError, match="4 symbols for 3 codes"):
        CodedTable.from_codes(RowNumbers(4), CODES, CODEBOOK)
    with pytest.raises(OptionError, match="2 symbols for 3 codes"):
        CodedTable.from_codes(["a", "b"], CODES, CODEBOOK)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((0, 2), int), "at least one row"),
        (np.zeros((3, 3), int), r"shape \(rows, 2\), got int64 of \(3, 3\)"),
        (np.zeros(2, int), r"got int64 of \(2,\)"),
        (np.zeros((3, 2)), "got float64"),
        (np.full((3, 2), 3), r"in \[0, 3\), got 3 to 3"),
        (np.full((3, 2), -1), "got -1 to -1"),
    ],
)
def test_codes_that_do_not_fit_are_refused(coded, codes, message):
    with pytest.raises(OptionError, match=message):
        CodedTable.from_codes(None, codes, CODEBOOK)
    if len(codes):
        with pytest.raises(OptionError, match=message):
            coded.compose(codes)


def test_parts_that_do_not_fit_are_refused(coded):
    book = Codebook.of(CODEBOOK)
    for packed in (np.zeros((3, 2), np.uint8), np.zeros(3, np.uint8), np.zeros((3, 1), np.int8)):
        with pytest.raises(OptionError, match=r"codes: expected uint8 of shape \(rows, 1\)"):
            CodedTable(RowNumbers(3), packed, book, Linear(2))
    with pytest.raises(OptionError, match="product code"):
        CodedTable(RowNumbers(3), coded.packed, book, Product(9))


def test_a_packed_code_beyond_k_is_found_when_it_is_read(coded):
    broken = CodedTable(coded.symbols, np.array([[0], [3], [0]], np.uint8), coded.codebook, coded.composition)
    assert broken["a"].tolist() == [11, 22]
    with pytest.raises(StorageError, match="codes: found code value 3, values must be below K=3"):
        broken.decode(1)
    with pytest.raises(StorageError, match="codes: found code value 3"):
        list(broken.code_chunks())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])  # noqa: S301
def test_a_table_can_be_copied_and_sent(copied):
    table = coded_table("lstm", rows=20, symbols=words(20), provenance={"seed": 1})
    table.neighbors(words(1)[0])
    twin = copied(table)
    np.testing.assert_array_equal(twin[words(3)[2]], table[words(3)[2]])
    assert twin.provenance == {"seed": 1}
