import copy
import gc
import pickle
import tracemalloc
import weakref
import zlib

import numpy as np
import pytest
from counted_work import calls_made
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import words

from kdcode import bitpack
from kdcode.errors import RowError, StorageError, TableError, UnknownSymbolError
from kdcode.symbol_blocks import BLOCK_SYMBOLS, MAX_SYMBOL_BYTES, SymbolBlocks
from kdcode.symbols import RowNumbers, StoredSymbols, pack_symbols

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


def deflated(text: bytes) -> np.ndarray:
    deflater = zlib.compressobj(wbits=-15)
    return np.frombuffer(deflater.compress(text) + deflater.flush(), dtype=np.uint8)


def of_text(text: bytes, *, count=3, heads=b"a\xff", order=(0, 1, 2)) -> StoredSymbols:
    """Stored symbols of one block with whatever text."""
    blocks = deflated(text)
    padded = np.zeros((1, 8), dtype=np.int64)
    padded[0, : len(order)] = order
    return StoredSymbols(
        count,
        {
            "blocks": blocks,
            "ends": np.array([blocks.size], dtype=np.uint64),
            "heads": np.frombuffer(heads, dtype=np.uint8),
            "order": bitpack.pack(padded, [bitpack.bits_for(count)] * 8),
        },
    )


def test_by_hand():
    stored = StoredSymbols.build(["b", "", "a"])
    assert zlib.decompress(stored.arrays["blocks"].tobytes(), wbits=-15) == b"\xffa\xffb\xff"
    assert stored.arrays["heads"].tobytes() == b"\xff"
    assert stored.arrays["ends"].tolist() == [stored.arrays["blocks"].size]
    assert stored.arrays["order"].tolist() == [[0b00_10_01, 0]]  # ranks 0, 1, 2 are rows 1, 2, 0
    assert stored.nbytes == stored.arrays["blocks"].size + 8 + 1 + 2


@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(ODD)), unique=True, min_size=1, max_size=300))
def test_symbols_come_back_in_row_order(symbols):
    stored = StoredSymbols.build(symbols)
    stored.verify()
    assert list(stored) == symbols
    assert stored[:] == symbols
    assert [stored.row_of(symbol) for symbol in symbols] == list(range(len(symbols)))
    assert stored.at(reversed(range(len(symbols)))) == symbols[::-1]


def test_many_blocks():
    symbols = words(20 * BLOCK_SYMBOLS + 5)
    stored = StoredSymbols.build(symbols)
    assert list(stored) == symbols
    assert stored.arrays["ends"].size == 21
    assert all(stored.row_of(symbol) == row for row, symbol in enumerate(symbols))
    assert stored.at([7, 2000, 7]) == [symbols[7], symbols[2000], symbols[7]]


def test_several_rows_inflate_each_block_once(monkeypatch):
    symbols = words(600 * BLOCK_SYMBOLS)  # more blocks than are remembered
    stored = StoredSymbols.build(symbols)
    inflated = []
    inflate = SymbolBlocks.inflate
    monkeypatch.setattr(SymbolBlocks, "inflate", lambda self, n: inflated.append(n) or inflate(self, n))
    assert stored.at(range(5000)) == symbols[:5000]
    assert len(inflated) == len(set(inflated))
    inflated.clear()
    assert sum(len(symbol) for symbol in stored) == sum(map(len, symbols))
    assert inflated == list(range(600))


def test_one_lookup_inflates_one_block(monkeypatch):
    stored = StoredSymbols.build(words(50 * BLOCK_SYMBOLS))
    inflated = []
    inflate = SymbolBlocks.inflate
    monkeypatch.setattr(SymbolBlocks, "inflate", lambda self, n: inflated.append(n) or inflate(self, n))
    assert stored.row_of(words(9)[8]) == 8
    assert len(inflated) == 1


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
    """No cycle of references keeps the inflated blocks and mapped arrays until the collector comes."""
    stored = StoredSymbols.build(words(300))
    assert stored.row_of(words(9)[8]) == 8  # some blocks are remembered now
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
    assert stored.row_of(symbols[100]) == 100


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (of_text(b"a\xffb\xff"), "blocks: block 0 does not hold the 3"),
        (of_text(b"a\xffb\xffc"), "blocks: block 0 does not hold the 3"),
        (of_text(b"a\xffb\xffc\xffd\xff"), "blocks: block 0 does not hold the 3"),
        (of_text(b"a\xff\xc3\xff\xa9\xff"), "blocks: block 0 is not UTF-8"),  # two halves of é
        (of_text(b"a\xff\xed\xa0\x80\xffc\xff"), "blocks: block 0 is not UTF-8"),  # a surrogate
        (of_text(b"a\xffb\xffc\xff", heads=b"b\xff"), "heads: head 0"),
        (of_text(b"a\xffb\xffc\xff", heads=b"a\xffb\xff"), "heads: expected 1 heads"),
        (of_text(b"a\xffb\xffc\xff", heads=b"a"), "heads: expected 1 heads"),
        (of_text(b"a\xffc\xffb\xff"), "blocks: block 0 is not sorted, or repeats"),
        (of_text(b"a\xffb\xffb\xff"), "blocks: block 0 is not sorted, or repeats"),
        (of_text(b"a\xffb\xffc\xff", order=(0, 1, 1)), "order: the rows are not a permutation"),
        (of_text(b"a\xffb\xffc\xff", order=(0, 1, 3)), "order: the rows are not a permutation"),
        (of_text(b"a\xffb\xff" + b"c" * 65_536 + b"\xff"), "blocks: block 0 holds a symbol of 65536"),
    ],
)
def test_what_breaks_the_specification_is_found(stored, message):
    with pytest.raises(StorageError, match=f"symbols.{message}"):
        stored.verify()


def test_a_deflate_bomb_is_not_inflated():
    bomb = of_text(b"a\xff" + bytes(1 << 25) + b"\xffb\xff")
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match=r"symbols\.blocks: block 0 does not hold the 3"):
            bomb.row_of("a")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 25  # a block of the longest symbols takes a quarter of this


def test_order_is_checked_where_it_is_used():
    stored = of_text(b"a\xffb\xffc\xff", order=(0, 1, 3))
    with pytest.raises(StorageError, match=r"symbols\.order: rank 2 points to row 3 of 3"):
        stored.row_of("c")
    with pytest.raises(StorageError, match=r"symbols\.order: a rank points to row 3 of 3"):
        stored.at([0])
    assert stored.row_of("b") == 1


def test_bytes_that_are_not_deflate_are_refused():
    arrays = of_text(b"a\xffb\xffc\xff").arrays
    for blocks in (np.full(9, 7, np.uint8), np.append(arrays["blocks"], np.uint8(0)), arrays["blocks"][:-2]):
        broken = StoredSymbols(3, {**arrays, "blocks": blocks, "ends": np.array([blocks.size], np.uint64)})
        with pytest.raises(StorageError, match=r"symbols\.blocks: block 0"):
            broken.verify()


def test_blocks_that_end_before_they_start_are_refused():
    arrays = StoredSymbols.build(words(300)).arrays
    size = arrays["blocks"].size
    for ends in ([size + 1, size, size], [500, 400, size], [2**63, 2**63, size]):
        broken = StoredSymbols(300, {**arrays, "ends": np.array(ends, dtype=np.uint64)})
        with pytest.raises(StorageError, match=r"symbols\.(ends|blocks): block \d"):
            broken.verify()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("blocks", np.zeros((2, 2), np.uint8)),
        ("blocks", np.zeros(4, np.int8)),
        ("ends", np.zeros(2, np.uint64)),
        ("ends", np.zeros(1, np.float32)),
        ("heads", np.zeros((1, 1), np.uint8)),
        ("order", np.zeros((1, 3), np.uint8)),
        ("order", np.zeros((2, 2), np.uint8)),
    ],
)
def test_wrong_shapes_and_types_are_refused_at_once(name, wrong):
    arrays = of_text(b"a\xffb\xffc\xff").arrays
    with pytest.raises(StorageError, match=f"symbols.{name}: expected .* for 3 symbols"):
        StoredSymbols(3, {**arrays, name: wrong})


def test_the_last_block_ends_where_the_blocks_end():
    arrays = of_text(b"a\xffb\xffc\xff").arrays
    with pytest.raises(StorageError, match=r"symbols\.ends: the last block"):
        StoredSymbols(3, {**arrays, "ends": arrays["ends"] - np.uint64(1)})


# All symbols in a dict


@given(
    symbols=st.lists(st.one_of(st.text(max_size=20), st.sampled_from(ODD)), unique=True, min_size=1, max_size=300),
    others=st.lists(st.one_of(st.text(max_size=20), st.sampled_from([*ODD, "\ud800"])), max_size=20),
)
def test_a_dict_of_all_symbols_finds_the_same(symbols, others):
    stored, indexed = StoredSymbols.build(symbols), StoredSymbols.build(symbols)
    indexed.index_in_memory()
    asked = [*others, *symbols[::-1], *others]
    assert [indexed.find(symbol) for symbol in asked] == [stored.find(symbol) for symbol in asked]
    assert indexed.find_each(asked) == stored.find_each(asked) == [stored.find(symbol) for symbol in asked]
    assert indexed == symbols


def test_a_lookup_in_the_dict_is_two_calls_and_touches_no_block(monkeypatch):
    symbols = words(3 * BLOCK_SYMBOLS)
    stored = StoredSymbols.build(symbols)
    stored.index_in_memory()
    index = stored._index
    stored.index_in_memory()
    assert stored._index is index  # made once
    monkeypatch.setattr(SymbolBlocks, "find", lambda *_: pytest.fail("a block was asked"))
    counted = calls_made(lambda: None)
    assert calls_made(lambda: stored.find(symbols[5])) <= counted + 2
    assert calls_made(lambda: stored.find_each(symbols)) <= counted + 2 + len(symbols)
    assert stored.row_of(symbols[5]) == 5
    assert "absent" not in stored


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda stored: pickle.loads(pickle.dumps(stored))])  # noqa: S301
def test_copies_are_made_without_the_dict(copied):
    stored = StoredSymbols.build(words(300))
    size = len(pickle.dumps(stored))
    stored.index_in_memory()
    assert len(pickle.dumps(stored)) == size
    twin = copied(stored)
    assert twin._index is None
    assert twin.find_each(words(300)) == list(range(300))


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (of_text(b"a\xffb\xffb\xff"), "blocks: a symbol appears twice"),
        (of_text(b"a\xffb\xffc\xff", order=(0, 1, 3)), "order: a rank points to row 3 of 3"),
        (of_text(b"a\xffb\xffc\xff", heads=b"b\xff"), "heads: head 0"),
        (of_text(b"a\xffb\xff"), "blocks: block 0 does not hold the 3"),
    ],
)
def test_no_dict_is_made_of_symbols_that_break_the_specification(stored, message):
    with pytest.raises(StorageError, match=f"symbols.{message}"):
        stored.index_in_memory()
    assert stored._index is None


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
