import copy
import gc
import itertools
import os
import pickle
import weakref
from contextlib import suppress

import kdc_reader
import numpy as np
import pytest
import raw_symbols
from counted_work import calls_made
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import words

from kdcode.data import glove_50d
from kdcode.errors import RowError, StorageError, TableError, UnknownSymbolError
from kdcode.symbols import BLOCK_SYMBOLS, MAX_SYMBOL_BYTES, RowNumbers, StoredSymbols, pack_symbols, suggestion

ODD = [
    "",
    "\0",
    "a\0b",
    " ",
    "two words",
    "\n",
    "ÿ",
    "é",
    "e\u0301",
    "\U0001f600",
    "\U0010ffff",
    "日本語",
    "a",
    "aa",
    "A",
]


def arrays_of(stored):
    return {f"symbols.{name}": np.asarray(array) for name, array in stored.arrays.items()}


def abc(**how):
    """Symbols a, b and c in one block, or what is told instead."""
    return raw_symbols.stored([(b"", how.pop("block", [(0, b"a"), (0, b"b"), (0, b"c")]))], how.pop("count", 3), **how)


def test_by_hand():
    stored = StoredSymbols.build(["b", "", "a"])
    # Strings: 0 is a byte that follows, 1 is FF. Shared bytes: 0 is none, 1 a number that follows.
    assert stored.arrays["strings"].tolist() == [2, 0, 0x01, 0x11, 0xFF, 1, 0, 1, 255]
    bits = "1" + "".join(f"00{ord(letter):08b}1" for letter in "ab") + "0"
    assert stored.arrays["blocks"].tobytes() == int(bits, 2).to_bytes(3, "big")
    assert stored.arrays["starts"].tolist() == [[0], [0b11_00]]  # heads from 0 to 0, blocks from 0 to 3
    assert stored.arrays["order"].tolist() == [[0b00_10_01, 0]]  # ranks 0, 1, 2 are rows 1, 2, 0
    assert stored.nbytes == 9 + 3 + 2 + 2


@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(ODD)), unique=True, min_size=1, max_size=300))
def test_symbols_come_back_in_row_order(symbols):
    stored = StoredSymbols.build(symbols)
    stored.verify()
    assert list(stored) == symbols
    assert stored[:] == symbols
    assert [stored.row_of(symbol) for symbol in symbols] == list(range(len(symbols)))
    assert stored.at(reversed(range(len(symbols)))) == symbols[::-1]
    assert kdc_reader.symbols(arrays_of(stored), len(symbols)) == symbols
    assert list(stored.ranked()) == sorted((symbol.encode(), row) for row, symbol in enumerate(symbols))


@given(
    symbols=st.lists(st.one_of(st.text("abé\0", max_size=6), st.sampled_from(ODD)), unique=True, min_size=1),
    others=st.lists(st.one_of(st.text("abé\0", max_size=6), st.sampled_from([*ODD, "\ud800"])), max_size=20),
)
def test_what_is_not_there_is_not_found(symbols, others):
    stored, rows = StoredSymbols.build(symbols), {symbol: row for row, symbol in enumerate(symbols)}
    asked = [*others, *symbols[::-1], *others]
    assert [stored.find(symbol) for symbol in asked] == [rows.get(symbol) for symbol in asked]
    assert stored.find_each(asked) == [rows.get(symbol) for symbol in asked]


@given(symbols=st.lists(st.text("abé\0", max_size=6).map(lambda end: "a" * 14 + end), unique=True, min_size=1))
def test_symbols_of_an_independent_writer_are_read(symbols):
    ranked = sorted(symbol.encode() for symbol in symbols)
    shared = [0, *(len(os.path.commonprefix(list(pair))) for pair in itertools.pairwise(ranked))]  # noqa: RUF071
    coded = [(equal, symbol[equal:]) for equal, symbol in zip(shared, ranked, strict=True)]
    blocks = []
    for start in range(0, len(ranked), BLOCK_SYMBOLS):
        head = ranked[start][: shared[start] + (start > 0)]
        blocks.append((head, [(0, ranked[start][len(head) :]), *coded[start + 1 : start + BLOCK_SYMBOLS]]))
    stored = raw_symbols.stored(blocks, len(ranked))
    stored.verify()
    assert list(stored) == [symbol.decode() for symbol in ranked]
    assert stored.find_each(list(stored)) == list(range(len(ranked)))


def test_many_blocks():
    symbols = words(20 * BLOCK_SYMBOLS + 5)
    stored = StoredSymbols.build(symbols)
    assert list(stored) == symbols
    assert len(stored.arrays["starts"]) == 22
    assert all(stored.row_of(symbol) == row for row, symbol in enumerate(symbols))
    assert stored.at([7, 600, 7]) == [symbols[7], symbols[600], symbols[7]]


def test_bytes_they_take():
    """Deflated in blocks of 128, as they were once, the numbered ones took 1.9 bytes each and the words 2.9."""
    for symbols, most in (([f"item_{number}" for number in range(20_000)], 1.2), (list(glove_50d().symbols), 2.4)):
        stored = StoredSymbols.build(symbols)
        assert (stored.nbytes - stored.arrays["order"].nbytes) / len(symbols) < most


def test_a_lookup_is_three_calls():
    """A call takes about a tenth of a microsecond."""
    stored = StoredSymbols.build(words(3 * BLOCK_SYMBOLS))
    symbol = words(9)[8]
    assert stored.find(symbol) == 8
    counted = calls_made(lambda: None)
    assert calls_made(lambda: stored.find(symbol)) <= counted + 2
    assert calls_made(lambda: stored.row_of(symbol)) <= counted + 3


def test_as_a_sequence():
    symbols = words(300)
    stored = StoredSymbols.build(symbols)
    assert len(stored) == 300
    assert stored[5] == symbols[5]
    assert stored[-1] == symbols[-1]
    assert stored[10:20:3] == symbols[10:20:3]
    assert symbols[3] in stored
    assert "absent" not in stored
    assert 3 not in stored
    assert "\ud800" not in stored
    assert stored == symbols
    assert stored == tuple(symbols)
    assert stored != symbols[::-1]
    assert stored != symbols[:-1]
    assert StoredSymbols.build(["a"]) != "a"
    assert repr(StoredSymbols.build(["x", "y"])) == "<2 symbols: 'x', 'y'>"
    assert repr(stored).endswith(", …>")
    with pytest.raises(IndexError):
        stored[300]
    for row in (-1, 300):
        with pytest.raises(RowError, match=rf"row {row} is out of range: the table has 300 rows, 0 to 299"):
            stored.at([row])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda stored: pickle.loads(pickle.dumps(stored))])  # noqa: S301
def test_copies_work_on_their_own(copied):
    stored = StoredSymbols.build(words(300))
    stored.row_of(words(1)[0])
    twin = copied(stored)
    assert twin == stored
    assert twin.row_of(words(8)[7]) == 7
    assert not np.shares_memory(twin.arrays["blocks"], stored.arrays["blocks"])


def test_symbols_are_packed_unless_they_are_packed_already():
    stored, numbers = StoredSymbols.build(["a"]), RowNumbers(3)
    assert pack_symbols(stored) is stored
    assert pack_symbols(numbers) is numbers
    assert isinstance(pack_symbols(["b", "a"]), StoredSymbols)


def test_symbols_are_freed_as_soon_as_nobody_holds_them():
    """No cycle of references keeps mapped arrays until the collector comes."""
    stored = StoredSymbols.build(words(300))
    assert stored.row_of(words(9)[8]) == 8
    assert stored.at([3]) == [words(4)[3]]
    watched = weakref.ref(stored)
    gc.disable()
    try:
        del stored
        assert watched() is None
    finally:
        gc.enable()


def test_an_unknown_symbol_is_met_with_another_spelling():
    stored = StoredSymbols.build(["king", "Paris", "NATO"])
    for asked, meant in (("King", "king"), ("paris", "Paris"), ("nato", "NATO"), (" king", "king")):
        with pytest.raises(UnknownSymbolError, match=f"did you mean '{meant}'"):
            stored.row_of(asked)
    with pytest.raises(UnknownSymbolError, match=r"no symbol 'queen'$"):
        stored.row_of("queen")


@pytest.mark.parametrize("typo", ["kingg", "kng", "kign", "kong", "King"])
def test_a_symbol_with_one_letter_wrong_is_found(typo):
    assert suggestion(typo, {"king", "queen"}) == "king"
    assert suggestion(typo, {"queen"}) is None


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([], "at least one"),
        (["b", "a", "b"], "'b' appears twice"),
        (["a", "x" * (MAX_SYMBOL_BYTES + 1)], "symbol 1 takes 65536 bytes, at most 65535"),
        (["a", "\udc80"], "symbol 1 .*UTF-8"),
        (["a", 1], "symbol 1 is int 1"),
    ],
)
def test_what_cannot_be_stored_is_refused(symbols, message):
    with pytest.raises(TableError, match=message):
        StoredSymbols.build(symbols)


def test_the_longest_symbols_fill_a_block():
    symbols = [chr(65 + number % 26) * (MAX_SYMBOL_BYTES - number) for number in range(BLOCK_SYMBOLS)]
    stored = StoredSymbols.build(symbols)
    stored.verify()
    assert stored.row_of(symbols[20]) == 20
    assert list(stored) == symbols


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (abc(block=[(0, b"a"), (0, b"b")]), "blocks: block 0 holds bits that no code begins with, or ends too early"),
        (abc(block=[(0, b"a"), (0, b"b"), (0, b"c"), (0, b"d")]), "blocks: block 0 is longer than its symbols"),
        (abc(block=raw_symbols.block_of([(0, b"a"), (0, b"b"), (0, b"c")]) + b"\0"), "blocks: block 0 is longer"),
        (abc(block=[(0, b"a"), (0, b"\xc3"), (0, b"\xc3\xa9")]), "blocks: block 0 is not UTF-8"),
        (abc(block=[(0, b"\xc3"), (1, b"\xa9"), (1, b"\xaa")]), "blocks: block 0 is not UTF-8"),  # half of é
        (abc(block=[(0, b"a"), (0, b"\xed\xa0\x80"), (0, b"\xee\x80\x80")]), "blocks: block 0 is not UTF-8"),
        (abc(block=[(0, b"a"), (0, b"c"), (0, b"b")]), "blocks: block 0 is not sorted, or repeats"),
        (abc(block=[(0, b"a"), (0, b"b"), (1, b"")]), "blocks: block 0 is not sorted, or repeats"),
        (abc(block=[(0, b"ab"), (0, b"ac"), (0, b"b")]), "blocks: block 0 is not sorted"),  # ab and ac share more
        (abc(block=[(0, b"a"), (2, b"b"), (0, b"c")]), "blocks: block 0 holds a symbol that shares more bytes"),
        (abc(block=[(0, b"a"), (1, b"a" * 65_534), (65_535, b"b")]), "blocks: block 0 holds a symbol of more"),
        (abc(order=[0, 1, 1]), "order: block 0 has a row that another rank has too"),
        (abc(order=[0, 1, 3]), "order: block 0 has a rank with a row that the table does not have"),
        (abc(arrays={"starts": raw_symbols.starts_of([(1, 8)])}), "starts: block 0 leaves bytes"),
    ],
)
def test_what_breaks_the_specification_is_found(stored, message):
    with pytest.raises(StorageError, match=f"symbols.{message}"):
        stored.verify()


@pytest.mark.parametrize("head", [b"b", b"a`a", b"a`", b"aZ", b"a"])
def test_a_head_is_greater_than_what_comes_before(head):
    """The last symbol of the first block is a followed by a grave accent."""
    first = [(0, b"aA"), *((1, bytes([65 + place])) for place in range(1, BLOCK_SYMBOLS))]
    stored = raw_symbols.stored([(b"", first), (head, [(0, b"zz")])], BLOCK_SYMBOLS + 1)
    if head > b"a`":
        stored.verify()
        assert stored.find((head + b"zz").decode()) == BLOCK_SYMBOLS
    else:
        with pytest.raises(StorageError, match=r"symbols\.blocks: block 1 is not sorted"):
            stored.verify()


def test_order_is_checked_where_it_is_used():
    stored = abc(order=[0, 1, 3])
    with pytest.raises(StorageError, match=r"symbols\.order: block 0 has a rank with a row that the table does not"):
        stored.row_of("c")
    with pytest.raises(StorageError, match=r"symbols\.order: a rank points to row 3 of 3"):
        stored.at([0])
    assert stored.row_of("b") == 1


def test_symbols_that_are_not_utf8_are_not_given_back():
    stored = abc(block=[(0, b"a"), (0, b"b"), (0, b"\xc3")])
    assert stored.find("b") == 1
    with pytest.raises(StorageError, match=r"symbols\.blocks: block 0 is not UTF-8"):
        stored[2]


@pytest.mark.parametrize(
    "strings",
    [
        b"",
        b"\1",
        b"\1\0",  # no entry
        b"\1\0\x21a",  # a string that is cut short
        b"\3\0\1\1\1",  # three codes of one bit
        b"\2\0\2\1",  # a length that falls
        b"\1\0\0",  # no bit
        b"\1\0\x0d",  # 13 bits
        b"\1\0\x21\xffa",  # FF before the end
        raw_symbols.STRINGS + b"\1",
        raw_symbols.STRINGS + b"\1\1",
    ],
)
def test_strings_that_are_no_prefix_codes_are_refused(strings):
    stored = abc(arrays={"strings": np.frombuffer(strings, dtype=np.uint8)})
    for use in (StoredSymbols.verify, lambda symbols: symbols.find("a"), list):
        with pytest.raises(StorageError, match=r"symbols\.strings: these are no prefix codes"):
            use(stored)


@pytest.mark.parametrize("places", [[15, 15], [9, 0], [0, 15], [15, 0]])
def test_places_outside_the_blocks_are_refused(places):
    stored = abc(arrays={"starts": raw_symbols.packed([[0, 0], places], 4)})
    for use in (StoredSymbols.verify, lambda symbols: symbols.find("a"), list):
        with pytest.raises(StorageError, match=r"symbols\.\w+: block 0"):
            use(stored)


@given(data=st.data())
def test_any_bytes_are_read_or_refused(data):
    """Nothing worse happens; the core's own tests look for bad accesses."""
    whole = StoredSymbols.build(words(3 * BLOCK_SYMBOLS))
    arrays = {name: np.array(array) for name, array in whole.arrays.items()}
    for name, array in arrays.items():
        for place in data.draw(st.lists(st.integers(0, array.size - 1), max_size=3), name):
            array.reshape(-1)[place] ^= data.draw(st.integers(1, 255))
    broken = StoredSymbols(len(whole), arrays)
    for use in (StoredSymbols.verify, list, lambda symbols: symbols.find_each(words(9))):
        with suppress(StorageError):
            use(broken)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("strings", np.zeros((2, 2), np.uint8)),
        ("blocks", np.zeros((2, 2), np.uint8)),
        ("blocks", np.zeros(4, np.int8)),
        ("starts", np.zeros((2, 1), np.uint64)),
        ("starts", np.zeros((3, 1), np.uint8)),
        ("starts", np.zeros((2, 3), np.uint8)),
        ("order", np.zeros((1, 3), np.uint8)),
        ("order", np.zeros((2, 2), np.uint8)),
    ],
)
def test_wrong_shapes_and_types_are_refused_at_once(name, wrong):
    with pytest.raises(StorageError, match=f"symbols.{name}: expected .* for 3 symbols"):
        abc(arrays={name: wrong})


# Row numbers


def test_row_numbers_as_a_sequence():
    numbers = RowNumbers(12)
    assert numbers[3] == "3"
    assert numbers[-1] == "11"
    assert numbers[9:] == ["9", "10", "11"]
    assert list(numbers) == [str(number) for number in range(12)]
    with pytest.raises(IndexError):
        numbers[12]


def test_row_numbers_equal_the_same_strings_only():
    assert RowNumbers(2) == ["0", "1"]
    assert RowNumbers(2) == RowNumbers(2)
    assert RowNumbers(2) != RowNumbers(3)
    assert RowNumbers(2) != [0, 1]
    assert RowNumbers(2) != ["0", "2"]
    assert RowNumbers(2) != "01"
    assert RowNumbers(2) != 2


@pytest.mark.parametrize("symbol", ["", "-1", "01", "+1", " 1", "1.0", "12", "٣", "9" * 5000, "a"])
def test_row_numbers_know_plain_decimals_only(symbol):
    assert symbol not in RowNumbers(12)
    with pytest.raises(UnknownSymbolError):
        RowNumbers(12).row_of(symbol)


def test_row_numbers_answer_without_walking_the_rows():
    numbers = RowNumbers(10**15)
    assert "999999999999999" in numbers
    assert "x" not in numbers
    assert 5 not in numbers
    assert numbers.row_of("123456789") == 123456789
    assert numbers == RowNumbers(10**15)


@pytest.mark.parametrize("rows", [[-1], [12], [3, -1]])
def test_row_numbers_have_no_rows_outside_the_table(rows):
    assert RowNumbers(12).at([11, 0]) == ["11", "0"]
    with pytest.raises(RowError, match=f"row {rows[-1]} is out of range: the table has 12 rows, 0 to 11"):
        RowNumbers(12).at(rows)
