"""Symbols of a mapped file: lookups check what they read, notice changes, cost few calls, and may share a file."""

import gc
import os
import random
import weakref

import pytest
from counted_work import calls_made
from reading_threads import in_threads
from sample_tables import coded_table, words

from kdcode import stored_array
from kdcode.digests import BLOCK_BYTES, block_digest
from kdcode.errors import DamagedFileError
from kdcode.storage import load, save

COUNT = 60_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A table of four blocks of digests."""
    path = tmp_path_factory.mktemp("table") / "t.kdc"
    save(coded_table(rows=COUNT, symbols=words(COUNT)), path)
    return path


@pytest.fixture
def checked(monkeypatch):
    """The bytes of each block that is compared with its digest."""
    calls = []
    monkeypatch.setattr(stored_array, "block_digest", lambda block: calls.append(len(block)) or block_digest(block))
    return calls


def test_each_block_is_checked_once_and_when_it_is_read(path, checked):
    mapped, symbols = load(path), words(COUNT)
    checked.clear()
    assert mapped.row_of(symbols[7]) == 7
    first = len(checked)
    assert 1 <= first <= 5
    assert all(mapped.row_of(symbol) == row for row, symbol in enumerate(symbols))
    assert len(checked) <= -(-path.stat().st_size // BLOCK_BYTES)
    checked.clear()
    assert mapped.symbols_at(range(0, COUNT, 7)) == symbols[::7]
    assert mapped.symbols[5] == symbols[5]
    assert not checked


def test_a_lookup_is_a_few_calls(path):
    """A call takes about a tenth of a microsecond."""
    mapped, symbol = load(path), words(8)[7]
    assert mapped.row_of(symbol) == 7
    counted = calls_made(lambda: None)
    assert calls_made(lambda: mapped.row_of(symbol)) <= counted + 6
    assert calls_made(lambda: symbol in mapped) <= counted + 6
    assert calls_made(lambda: mapped.rows_of([symbol] * 1000)) <= counted + 1100


def test_a_file_is_let_go_as_soon_as_nobody_holds_its_table(path):
    """No cycle of references waits for the collector."""
    mapped = load(path)
    assert mapped.row_of(words(8)[7]) == 7
    watched = weakref.ref(mapped.symbols.arrays["blocks"].checks.content)
    gc.disable()
    try:
        del mapped
        assert watched() is None
    finally:
        gc.enable()


def test_threads_that_look_up_at_once_get_right_answers(path):
    """Blocks are checked while other threads read them and others."""
    mapped, symbols = load(path), words(COUNT)
    wrong = []

    def look_up(seed):
        generator = random.Random(seed)
        for _ in range(1000):
            row = generator.randrange(len(symbols))
            if mapped.row_of(symbols[row]) != row or mapped.symbols_at([row]) != [symbols[row]]:
                wrong.append(row)

    in_threads(look_up)
    assert not wrong


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_file_written_to_in_place_is_noticed(tmp_path, asked_before):
    path = tmp_path / "t.kdc"
    save(coded_table(rows=COUNT, symbols=words(COUNT)), path)
    mapped, symbols = load(path), words(COUNT)
    if asked_before:
        assert mapped.row_of(symbols[7]) == 7
        assert mapped.symbols_at([7]) == symbols[7:8]
    written = path.stat().st_mtime_ns
    with path.open("r+b") as stream:
        stream.write(bytes(path.stat().st_size))
    os.utime(path, ns=(written + 1_000_000_000,) * 2)
    for read in (
        lambda: mapped[symbols[7]],
        lambda: mapped.row_of(symbols[7]),
        lambda: mapped.rows_of(symbols[:2]),
        lambda: mapped.symbols_at([7]),
        lambda: next(mapped.symbols.ranked()),
        mapped.symbols.verify,
    ):
        with pytest.raises(DamagedFileError, match="do not match their digest"):
            read()


def test_a_file_that_is_cut_short_is_noticed(tmp_path):
    save(coded_table(rows=COUNT, symbols=words(COUNT)), tmp_path / "t.kdc")
    mapped, symbols = load(tmp_path / "t.kdc"), words(COUNT)
    assert mapped.row_of(symbols[7]) == 7
    with (tmp_path / "t.kdc").open("r+b") as stream:
        stream.truncate(5000)
    with pytest.raises(DamagedFileError, match="and has 5,000 now"):
        mapped.row_of(symbols[7])
