"""What VectorTable and CodedTable have in common as mappings; every test is for both."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import coded_table, words

from kdcode import CodedTable, VectorTable
from kdcode.errors import OptionError, RowError, UnknownSymbolError, UnknownSymbolsError
from kdcode.symbols import RowNumbers

pytestmark = pytest.mark.usefixtures("lookup_path")  # with compiled code and without

ROWS = 300
SYMBOLS = words(ROWS)
CODED = coded_table(rows=ROWS, symbols=SYMBOLS)
MATRIX = CODED.to_table().matrix
UNNAMED = coded_table(rows=ROWS)


@pytest.fixture(params=["coded", "vectors", "half"])
def table(request):
    if request.param == "coded":
        return CODED
    return VectorTable(SYMBOLS, MATRIX.astype(np.float16 if request.param == "half" else np.float32))


@pytest.fixture
def matrix(table):
    return np.concatenate([vectors for _, vectors in table.chunks()])


@pytest.fixture(params=["coded", "vectors"])
def unnamed(request):
    return UNNAMED if request.param == "coded" else UNNAMED.to_table()


def test_it_is_a_mapping(table, matrix):
    assert isinstance(table, Mapping)
    assert len(table) == ROWS
    assert list(table) == SYMBOLS
    assert SYMBOLS[5] in table
    assert "absent" not in table
    assert 5 not in table
    assert None not in table
    assert table.get("absent") is None
    assert table.get("absent", 7) == 7
    np.testing.assert_array_equal(table.get(SYMBOLS[5]), matrix[5])
    assert table == table  # noqa: PLR0124 - the same object, and no other
    assert table != dict(table)
    assert len({table, table}) == 1


def test_keys_values_and_items(table, matrix):
    assert list(table.keys()) == SYMBOLS
    assert SYMBOLS[7] in table.keys()  # noqa: SIM118 - the keys are what is tested
    assert len(table.values()) == len(table.items()) == ROWS
    np.testing.assert_array_equal(list(table.values()), matrix)
    assert [symbol for symbol, _ in table.items()] == SYMBOLS
    np.testing.assert_array_equal([vector for _, vector in table.items()], matrix)
    as_dict = dict(table)
    assert list(as_dict) == SYMBOLS
    np.testing.assert_array_equal(as_dict[SYMBOLS[9]], matrix[9])


def test_symbols_and_lists_of_symbols(table, matrix):
    np.testing.assert_array_equal(table[SYMBOLS[3]], matrix[3])
    assert table[SYMBOLS[3]].dtype == np.float32
    for wanted in ([SYMBOLS[3], SYMBOLS[1], SYMBOLS[3]], np.array([SYMBOLS[3], SYMBOLS[1], SYMBOLS[3]])):
        np.testing.assert_array_equal(table[wanted], matrix[[3, 1, 3]])
    np.testing.assert_array_equal(table[np.array(SYMBOLS[:2], dtype=object)], matrix[:2])
    assert table[[]].shape == (0, 7)


def test_frames_columns_are_lists_of_symbols(table, matrix):
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(table[pandas.Series(SYMBOLS[4:6])], matrix[4:6])


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        np.int32(7),
        slice(10, 20),
        slice(None),
        slice(None, None, -7),
        slice(-3, None),
        slice(400, 500),
        [3, 1, -1],
        np.array([1, 2], dtype=np.uint8),
        np.array(4),
        np.array([[0, 299], [-300, 5]]),
        np.arange(ROWS) % 3 == 0,
        [True, False] * 150,
        np.zeros(ROWS, dtype=bool),
    ],
    ids=str,
)
def test_row_numbers_index_as_in_numpy(table, matrix, key):
    np.testing.assert_array_equal(table[key], matrix[key])
    assert table[key].dtype == np.float32


@given(st.slices(ROWS), st.lists(st.integers(-ROWS, ROWS - 1)))
def test_slices_and_lists_agree_with_numpy(slice_, rows):
    np.testing.assert_array_equal(CODED[slice_], MATRIX[slice_])
    np.testing.assert_array_equal(CODED[rows], MATRIX[np.array(rows, dtype=int)])


def test_what_comes_back_is_a_copy(table):
    before = table[0].copy()
    for key in (0, SYMBOLS[0], slice(0, 3), [0, 1]):
        table[key][...] = 99
    np.testing.assert_array_equal(table[0], before)


@pytest.mark.parametrize(
    ("key", "named"),
    [(300, 300), (-301, -301), ([0, 300], 300), (np.array([[0], [999]]), 999), (np.uint64(2**63), 2**63)],
)
def test_rows_out_of_range_name_the_row_and_the_limit(table, key, named):
    with pytest.raises(RowError, match=f"row {named} is out of range: the table has 300 rows, 0 to 299"):
        table[key]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1.5, OptionError, "expected symbols .strings. or row numbers .integers., got float 1.5"),
        (None, OptionError, "expected symbols .strings. or row numbers"),
        (True, OptionError, "expected symbols .strings. or row numbers"),
        ([1.0, 2.0], OptionError, r"got list \[1.0, 2.0\]"),
        (np.ones((2, 2)), OptionError, r"got float64 of shape \(2, 2\)"),
        ([[1], [2, 3]], OptionError, r"got list \[\[1\], \[2, 3\]\]"),
        (["word0", 3], OptionError, "expected symbols alone or numbers alone, got 3 among symbols"),
        ((3, 5), OptionError, r"one key is expected, got 2; several rows or symbols are a list: table\[\[…\]\]"),
        (slice("a", "b"), OptionError, "a slice takes row numbers, got 'a':'b'"),
        ([True, False], RowError, r"a mask needs one boolean for each of 300 rows, got shape \(2,\)"),
        ("absent", UnknownSymbolError, "no symbol 'absent'$"),
        ("WORD0", UnknownSymbolError, "no symbol 'WORD0'; did you mean 'word0'"),
        (["word0", "absent"], UnknownSymbolError, "no symbol 'absent'$"),
        (
            ["absent", "word0", "WORD0"],
            UnknownSymbolsError,
            r"no symbols 'absent', 'WORD0' \(did you mean 'word0'\?\)$",
        ),
        ([f"no{number}" for number in range(25)], UnknownSymbolsError, "'no19' and 5 more$"),
    ],
)
def test_keys_that_are_no_keys_are_refused(table, key, error, message):
    with pytest.raises(error, match=message):
        table[key]
    with pytest.raises(error, match=message):
        table.select(key)


def test_row_of(table):
    assert table.row_of(SYMBOLS[8]) == 8
    with pytest.raises(OptionError, match=r"a symbol is a string, got 1; table\[1\] takes row numbers"):
        table.row_of(1)


def test_rows_of(table):
    assert table.rows_of(SYMBOLS[8]) == 8
    assert table.rows_of([SYMBOLS[8], "absent", SYMBOLS[2]], missing="skip").tolist() == [8, 2]
    assert table.rows_of(["absent"], missing="skip").tolist() == []
    with pytest.raises(UnknownSymbolError):
        table.rows_of([SYMBOLS[8], "absent"])


def test_symbols_end_with_any_character():
    table = VectorTable(["a", "a\0"], np.eye(2))
    assert table[["a\0"]].tolist() == [[0, 1]]
    assert coded_table(rows=2, symbols=["a", "a\0"]).rows_of(["a\0"]).tolist() == [1]


def test_a_table_without_symbols_calls_its_rows_by_number(unnamed):
    np.testing.assert_array_equal(unnamed["12"], unnamed[12])
    np.testing.assert_array_equal(unnamed[["12", "0"]], unnamed[[12, 0]])
    assert list(unnamed)[:2] == ["0", "1"]
    assert "300" not in unnamed


def test_the_matrix_of_a_table(table, matrix):
    np.testing.assert_array_equal(np.asarray(table), matrix)
    assert np.asarray(table, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize(
    "key", [[5, 2, 9], slice(4, 8), SYMBOLS[3:6], [SYMBOLS[7]], np.arange(ROWS) < 2, -1, SYMBOLS[0]]
)
def test_selected_rows_are_a_table_of_the_same_kind(table, key):
    part = table.select(key)
    rows = np.atleast_1d(table.rows_of(key))
    assert type(part) is type(table)
    assert list(part) == [SYMBOLS[row] for row in rows]
    np.testing.assert_array_equal(part[:], table[rows])
    assert [part.row_of(symbol) for symbol in part] == list(range(len(part)))


def test_selections_of_a_table_without_symbols_keep_the_numbers(unnamed):
    part = unnamed.select([7, 3])
    assert list(part) == ["7", "3"]
    np.testing.assert_array_equal(part["3"], unnamed[3])
    first = unnamed.select(slice(0, 10))
    assert isinstance(first.symbols, RowNumbers)
    assert len(first) == 10


def test_selections_that_cannot_be(table):
    assert list(table.select(["absent", SYMBOLS[1]], missing="skip")) == [SYMBOLS[1]]
    with pytest.raises(OptionError, match="at least one row"):
        table.select([])
    with pytest.raises(OptionError, match="at least one row"):
        table.select(["absent"], missing="skip")
    with pytest.raises(OptionError, match=f"row 5 .'{SYMBOLS[5]}'. is selected more than once"):
        table.select([1, 5, 2, 5])
    with pytest.raises(OptionError, match=r"got shape \(1, 2\)"):
        table.select([[1, 2]])
    with pytest.raises(OptionError, match="missing must be one of raise, skip"):
        table.select([1], missing="drop")


def test_rows_are_added_without_changing_the_table(table):
    more = table.with_rows({"<unk>": np.ones(7)})
    assert type(more) is type(table)
    assert (len(more), len(table)) == (ROWS + 1, ROWS)
    assert "<unk>" in more
    assert more.row_of("<unk>") == ROWS
    assert table.with_rows({"<unk>": 0}, at="start").row_of(SYMBOLS[0]) == 1
    np.testing.assert_array_equal(more[:-1], table[:])


def test_rows_added_to_a_table_without_symbols(unnamed):
    more = unnamed.with_rows({"<pad>": 0}, at="start")
    assert list(more)[:3] == ["<pad>", "0", "1"]
    np.testing.assert_array_equal(more["0"], unnamed[0])
    np.testing.assert_array_equal(more[1], unnamed[0])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({}, "a dict of symbol to vector"),
        (["<pad>"], "a dict of symbol to vector, as in {'<pad>': 0}, got list"),
        ({"word0": 0}, "the table has 'word0' already, in row 0"),
        ({"x": [1.0, 2.0]}, "the vector of 'x' must have 7 numbers, or be one number"),
        ({"x": "zeros"}, "the vector of 'x' must have 7 numbers.*got str 'zeros'"),
        ({"x": np.nan}, "finite"),
    ],
)
def test_rows_that_cannot_be_added_are_refused(table, rows, message):
    with pytest.raises(ValueError, match=message):
        table.with_rows(rows)


def test_the_place_of_added_rows_is_the_start_or_the_end(table):
    with pytest.raises(OptionError, match="at must be start or end, got 'top'"):
        table.with_rows({"x": 0}, at="top")


def test_a_repr_is_short():
    assert repr(CODED) == "<CodedTable: 300 symbols, 7 dimensions, K=4, D=4, linear>"
    assert len(repr(VectorTable(words(30_000), np.zeros((30_000, 2))))) < 100
    assert len(repr(CODED.keys())) < 100
    assert isinstance(CODED, CodedTable)
