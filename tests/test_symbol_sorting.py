import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import words

from kdcode import symbol_sorting
from kdcode.errors import StorageError, TableError
from kdcode.symbol_sorting import SymbolSorter
from kdcode.symbols import StoredSymbols

SYMBOLS = st.lists(
    st.one_of(st.text(max_size=4), st.sampled_from(["", "\0", "a b", "\n", "\U0001f600", "ÿ"])), unique=True, min_size=1
)


def written(sorter):
    """The four arrays of a sorter's files, as bytes."""
    return {name: path.read_bytes() for name, path in sorter.write()._asdict().items()}


def built(symbols):
    return {name: np.asarray(array).tobytes() for name, array in StoredSymbols.build(symbols).arrays.items()}


@given(symbols=SYMBOLS, run=st.integers(1, 9), chunk=st.integers(1, 9))
def test_symbols_in_runs_become_what_they_are_in_memory(tmp_path_factory, symbols, run, chunk):
    sorter = SymbolSorter(tmp_path_factory.mktemp("runs"), run)
    for start in range(0, len(symbols), chunk):
        sorter.add(symbols[start : start + chunk])
    assert sorter.count == len(symbols)
    assert written(sorter) == built(symbols)


@pytest.mark.parametrize("count", [31, 32, 33, 1023, 1024, 1025, 70_000])
def test_blocks_and_pieces_end_where_they_should(count, tmp_path):
    sorter = SymbolSorter(tmp_path, 4096)
    sorter.add(words(count))
    assert written(sorter) == built(words(count))


def test_many_runs_are_merged_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(symbol_sorting, "_MERGED_RUNS", 3)
    sorter = SymbolSorter(tmp_path, 5)
    most = 0
    for symbol in words(500):
        sorter.add([symbol])
        most = max(most, len(list(tmp_path.iterdir())))
    assert most <= 12  # 100 runs of 5, no more than two or three of a level at a time
    assert written(sorter) == built(words(500))


@pytest.mark.parametrize("run", [1, 2, 3, 100])
def test_a_symbol_that_comes_twice_is_named_with_both_rows(run, tmp_path):
    sorter = SymbolSorter(tmp_path, run)
    sorter.add(["c", "b", "a"])
    sorter.add(["d", "b"])
    with pytest.raises(TableError, match=r"symbol 'b' appears twice, in rows 1 and 4; symbols must be distinct"):
        sorter.write()


def test_a_symbol_that_cannot_be_stored_is_named_with_its_row(tmp_path):
    sorter = SymbolSorter(tmp_path)
    sorter.add(["a"])
    with pytest.raises(TableError, match="symbol 1 takes 65536 bytes"):
        sorter.add(["x" * 65_536])


def test_long_symbols_are_written_before_they_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(symbol_sorting, "RUN_BYTES", 100)
    sorter = SymbolSorter(tmp_path)
    symbols = [f"{number:030d}" for number in range(10)]
    sorter.add(symbols)
    assert len(list(tmp_path.iterdir())) == 2  # four make a run, and two are left in memory
    assert written(sorter) == built(symbols)


def test_sorted_symbols_are_taken_with_others(tmp_path):
    before, after = words(300), [f"new {number}" for number in range(50)]
    sorter = SymbolSorter(tmp_path, 20)
    sorter.add_sorted(StoredSymbols.build(before).ranked(), 300)
    sorter.add(after)
    assert written(sorter) == built([*before, *after])


def test_symbols_that_claim_to_be_sorted_and_are_not_are_refused(tmp_path):
    sorter = SymbolSorter(tmp_path)
    sorter.add_sorted([(b"b", 0), (b"a", 1)], 2)
    with pytest.raises(StorageError, match="'a' is not in its place"):
        sorter.write()


def test_memory_does_not_grow_with_the_number_of_symbols(tmp_path):
    def peak(count, folder):
        folder.mkdir()
        tracemalloc.start()
        sorter = SymbolSorter(folder, 2000)
        for start in range(0, count, 1000):
            sorter.add([f"word {number * 7919 % 1_000_003}" for number in range(start, start + 1000)])
        few = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return few

    few, many = peak(10_000, tmp_path / "few"), peak(100_000, tmp_path / "many")
    assert many < 1.5 * few


def test_nothing_but_the_tensors_is_left(tmp_path):
    sorter = SymbolSorter(tmp_path, 20)
    sorter.add(words(300))
    files = sorter.write()
    assert {path.name for path in set(tmp_path.iterdir()) - set(files)} == {f"run-{number}" for number in range(15)}
    assert sorter.start_bytes == StoredSymbols.build(words(300)).arrays["starts"].shape[1]


@pytest.mark.parametrize(("symbol", "message"), [(b"\xc3", "is not UTF-8"), (b"x" * 65_536, "is too long")])
def test_symbols_of_a_broken_file_are_refused(symbol, message, tmp_path):
    sorter = SymbolSorter(tmp_path)
    sorter.add_sorted([(b"a", 0), (symbol, 1)], 2)
    with pytest.raises(StorageError, match=rf"symbols\.blocks: .* {message}"):
        sorter.write()
