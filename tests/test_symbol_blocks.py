"""Blocks of symbols: those asked for last are kept, and a lookup in them reads nothing and costs few calls."""

import os
import random
import tracemalloc

import pytest
from counted_work import calls_made
from hypothesis import given
from hypothesis import strategies as st
from reading_threads import in_threads
from sample_tables import coded_table, words

from kdcode import symbol_blocks
from kdcode.errors import DamagedFileError
from kdcode.storage import load, save
from kdcode.stored_array import FileContent
from kdcode.symbol_blocks import BLOCK_SYMBOLS, END, Block, SymbolBlocks, block_text
from kdcode.symbols import StoredSymbols


@pytest.fixture
def inflated(monkeypatch):
    """The numbers of the blocks that were inflated."""
    numbers = []
    inflate = SymbolBlocks.inflate
    monkeypatch.setattr(SymbolBlocks, "inflate", lambda self, n: numbers.append(n) or inflate(self, n))
    return numbers


@pytest.fixture
def mapped(tmp_path):
    """A table of twenty blocks of symbols in a mapped file."""
    save(coded_table(rows=20 * BLOCK_SYMBOLS, symbols=words(20 * BLOCK_SYMBOLS)), tmp_path / "t.kdc")
    return load(tmp_path / "t.kdc")


def room_for(monkeypatch, blocks, stored):
    """Let no more than so many blocks of these symbols be kept."""
    largest = max(symbol_blocks._memory_of(stored._blocks.block(number)) for number in range(len(stored._blocks.heads)))
    monkeypatch.setattr(symbol_blocks, "_KEPT_BYTES", blocks * largest)


def in_block(stored, number):
    """The first symbol of a block."""
    return stored._blocks.heads[number].decode()


some_symbols = st.lists(st.text("abé\0", max_size=4), unique=True, min_size=1, max_size=BLOCK_SYMBOLS)


@given(symbols=some_symbols, asked=st.text("abé\0", max_size=4))
def test_a_block_knows_where_its_symbols_stand(symbols, asked):
    ranked = sorted(symbol.encode() for symbol in symbols)
    block = Block(END + block_text(ranked), b"")
    assert block.symbols() == ranked
    assert [block.place_of(symbol) for symbol in ranked] == list(range(len(ranked)))
    assert block.place_of(asked.encode()) == (ranked.index(asked.encode()) if asked in symbols else None)


def test_the_block_that_was_asked_for_longest_ago_is_the_first_to_go(inflated, monkeypatch):
    stored = StoredSymbols.build(words(4 * BLOCK_SYMBOLS))
    room_for(monkeypatch, 2, stored)
    stored = StoredSymbols(len(stored), stored.arrays)
    inflated.clear()
    for number in (0, 1, 0, 2, 0, 1):
        assert stored.find(in_block(stored, number)) is not None
    assert inflated == [0, 1, 2, 1]  # when 2 came, 1 had to go, and not 0, which was read before it


def test_kept_blocks_take_what_is_counted():
    symbols = words(300 * BLOCK_SYMBOLS)
    stored = StoredSymbols.build(symbols)
    stored.find(symbols[0])
    tracemalloc.start()
    try:
        for number in range(300):
            stored.find(in_block(stored, number))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * stored._blocks._kept_bytes < taken < 1.05 * stored._blocks._kept_bytes


def test_a_warm_lookup_is_a_few_calls_and_reads_nothing(mapped, inflated, monkeypatch):
    """A call takes about a tenth of a microsecond. One fstat takes a whole one, and an array from a file several."""
    symbols = words(len(mapped))
    first = symbols[7]
    mapped.row_of(first)
    inflated.clear()
    monkeypatch.setattr(FileContent, "changed", lambda _: pytest.fail("the file was looked at"))
    assert calls_made(lambda: mapped.row_of(first)) <= 22
    assert calls_made(lambda: first in mapped) <= 22
    assert mapped.row_of(first) == 7
    assert not inflated


def test_each_of_many_warm_symbols_is_a_few_calls(mapped, inflated):
    symbols = random.Random(0).choices(words(len(mapped)), k=1000)
    mapped.rows_of(symbols)
    inflated.clear()
    assert calls_made(lambda: mapped.rows_of(symbols)) <= 18 * len(symbols)
    assert not inflated


def test_a_list_of_symbols_inflates_each_block_once(mapped, inflated, monkeypatch):
    rows = random.Random(0).sample(range(len(mapped)), 1000)
    symbols = words(len(mapped))
    monkeypatch.setattr(symbol_blocks, "_KEPT_BYTES", 0)  # none but the last is kept
    asked = [symbols[row] for row in rows]
    assert mapped.rows_of(asked).tolist() == rows
    assert inflated == list(range(20))
    assert mapped.rows_of([*asked, "absent", "\ud800", ""], missing="skip").tolist() == rows


def test_threads_that_look_up_at_once_get_right_answers(mapped, monkeypatch):
    """Blocks are checked, inflated, kept and forgotten while other threads do the same."""
    symbols = words(len(mapped))
    monkeypatch.setattr(symbol_blocks, "_KEPT_BYTES", 5 << 12)  # a few of twenty blocks
    wrong = []

    def look_up(seed):
        generator = random.Random(seed)
        for _ in range(1000):
            row = generator.randrange(len(symbols))
            if mapped.row_of(symbols[row]) != row or mapped.symbols_at([row]) != [symbols[row]]:
                wrong.append(row)

    in_threads(look_up)
    blocks = mapped.symbols._blocks
    assert not wrong
    assert 1 < len(blocks._kept) < 20
    assert blocks._kept_bytes == sum(map(symbol_blocks._memory_of, blocks._kept.values())) <= 5 << 12


def test_a_file_written_to_in_place_is_noticed_where_it_is_read(mapped, tmp_path):
    """A kept block was checked before, so its rows are right; everything that is still to be read is refused."""
    symbols = mapped.symbols
    kept, other = in_block(symbols, 3), in_block(symbols, 4)
    row = mapped.row_of(kept)
    path = tmp_path / "t.kdc"
    written = path.stat().st_mtime_ns
    with path.open("r+b") as stream:
        stream.write(bytes(path.stat().st_size))
    os.utime(path, ns=(written + 1_000_000_000,) * 2)
    assert mapped.row_of(kept) == row
    for read in (lambda: mapped[kept], lambda: mapped.row_of(other), lambda: mapped.rows_of([kept, other])):
        with pytest.raises(DamagedFileError, match="do not match their digest"):
            read()
