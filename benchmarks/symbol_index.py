"""How symbols are best kept: ours against a dict, a sorted array and a trie, in bytes, time and memory.

    python benchmarks/symbol_index.py --symbols path/to/symbols.txt

reads one symbol a line, measures with the first 100,000 of them, with 400,000 made ones (pairs of the read ones, joined
by an underscore, because so many real distinct words are hard to come by) and with 10,000,000 numbered ones, prints a
table and writes benchmarks/results/symbol_index.json. It takes some five minutes, and 4 GB of memory.

Every index is opened and asked in processes of its own, and files are in the page cache by then. Lookups are counted in
processor time, of strings that were never hashed before, in two ways:

    warm    among 1,000 symbols, each of which was looked up before
    spread  drawn uniformly from all, after 100,000 others: the worst case for caches
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import marisa_trie
import numpy as np
from result_file import write_result

from kdcode import bitpack
from kdcode.codec import CodewordSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.storage import load, save
from kdcode.symbols import StoredSymbols

RESULTS = Path(__file__).parent / "results" / "symbol_index.json"
Lookup = Callable[[str], int]


def build_dict(symbols: list[str], folder: Path) -> int:
    """Newline text, from which a dict is made at every start."""
    path = folder / "symbols.txt"
    path.write_text("\n".join(symbols), encoding="utf-8")
    return path.stat().st_size


def open_dict(folder: Path) -> Lookup:
    """Read the text and make the dict."""
    text = (folder / "symbols.txt").read_text(encoding="utf-8")
    return {symbol: row for row, symbol in enumerate(text.split("\n"))}.__getitem__


def build_sorted(symbols: list[str], folder: Path) -> int:
    """UTF-8 in sorted order, the end of every symbol in it, and the row of every rank in packed bits."""
    encoded = [symbol.encode("utf-8") for symbol in symbols]
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    arrays = {
        "text": np.frombuffer(b"".join(encoded[row] for row in order), dtype=np.uint8),
        "ends": np.cumsum([len(encoded[row]) for row in order], dtype=np.uint32),
        "order": packed_rows(order),
    }
    return save_arrays(arrays, folder)


def open_sorted(folder: Path) -> Lookup:
    """Map the arrays; a lookup is a binary search over the raw bytes."""
    text, ends, order = (load_array(folder, name) for name in ("text", "ends", "order"))
    buffer, bits = memoryview(text), order.shape[1]

    def lookup(symbol: str) -> int:
        key, low, high = symbol.encode("utf-8"), 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            if bytes(buffer[int(ends[middle - 1]) if middle else 0 : int(ends[middle])]) < key:
                low = middle + 1
            else:
                high = middle
        return bitpack.value_at(order[low // 8].tobytes(), low % 8, bits)

    return lookup


def build_marisa(symbols: list[str], folder: Path) -> int:
    """A marisa trie, and the row of every one of its keys in packed bits."""
    trie = marisa_trie.Trie(symbols)
    trie.save(str(folder / "trie"))
    rows = np.empty(len(symbols), dtype=np.uint32)
    for row, symbol in enumerate(symbols):
        rows[trie[symbol]] = row
    return (folder / "trie").stat().st_size + save_arrays({"order": packed_rows(rows)}, folder)


def open_marisa(folder: Path) -> Lookup:
    """Map the trie and the order of its keys."""
    trie = marisa_trie.Trie().mmap(str(folder / "trie"))
    order = load_array(folder, "order")
    bits = order.shape[1]

    def lookup(symbol: str) -> int:
        key = trie[symbol]
        return bitpack.value_at(order[key // 8].tobytes(), key % 8, bits)

    return lookup


def build_kdcode(symbols: list[str], folder: Path) -> int:
    """A .kdc file with K = 256, D = 16 and d = 100; the bytes of its four symbol tensors."""
    spec = CodewordSpec.named("linear", 100, 256, 16, codebook_dtype="int8")
    codec = make_codec(spec, {"codebook": np.random.default_rng(0).normal(size=(16, 256, 100))})
    stored = StoredSymbols.build(symbols)
    save(CodedTable(stored, np.zeros((len(symbols), spec.row_bytes), dtype=np.uint8), codec), folder / "table.kdc")
    return stored.nbytes


def open_kdcode(folder: Path) -> Lookup:
    """Map the file."""
    return load(folder / "table.kdc").row_of


INDEXES: dict[str, tuple[Callable[[list[str], Path], int], Callable[[Path], Lookup]]] = {
    "kdcode": (build_kdcode, open_kdcode),
    "marisa-trie": (build_marisa, open_marisa),
    "sorted array": (build_sorted, open_sorted),
    "dict of text": (build_dict, open_dict),
}


def packed_rows(rows: Any) -> np.ndarray:  # noqa: ANN401 - any sequence of integers
    """Row numbers in as few bits as they take, eight to a packed row: the same for all who need them."""
    padded = np.zeros(-(-len(rows) // 8) * 8, dtype=np.uint32)
    padded[: len(rows)] = rows
    return bitpack.pack(padded.reshape(-1, 8), (bitpack.bits_for(len(rows)),) * 8)


def save_arrays(arrays: dict[str, np.ndarray], folder: Path) -> int:
    """Save arrays to be mapped; the bytes of their content."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return sum(array.nbytes for array in arrays.values())


def load_array(folder: Path, name: str) -> np.ndarray:
    """An array of `save_arrays`, mapped and without the slow indexing of numpy's memmap class."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))


def questions(symbols: list[str], lookups: int) -> dict[str, list[str]]:
    """What every index is asked, by the way it is asked; `before` each of them what it was asked already."""
    generator = random.Random(2)
    few = generator.sample(symbols, min(1000, len(symbols)))
    return {
        "first": [generator.choice(symbols)],
        "before warm": few,
        "warm": generator.choices(few, k=lookups),
        "before spread": generator.choices(symbols, k=5 * lookups),
        "spread": generator.choices(symbols, k=lookups),
    }


def probe(name: str, folder: Path, asked: dict[str, list[str]]) -> dict[str, float]:
    """Open an index in this process and time it. Memory is what the process grew by from before it was opened."""
    before, started = resident_bytes(), time.perf_counter()
    lookup = INDEXES[name][1](folder)
    opened = time.perf_counter()
    lookup(asked["first"][0])
    found = {
        "open_ms": (opened - started) * 1e3,
        "first_lookup_ms": (time.perf_counter() - opened) * 1e3,
        "first_mb": (resident_bytes() - before) / 1e6,
    }
    for way in ("warm", "spread"):
        for symbol in asked[f"before {way}"]:
            lookup(symbol)
        started_at = time.process_time()  # of this process alone, whatever else the machine is doing
        for symbol in asked[way]:
            lookup(symbol)
        found[f"{way}_ns"] = (time.process_time() - started_at) / len(asked[way]) * 1e9
    return found | {"resident_mb": (resident_bytes() - before) / 1e6}


def resident_bytes() -> int:
    """The memory of this process now; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0


def measure(name: str, symbols: list[str], kind: str, asked: dict[str, list[str]], repeats: int) -> dict[str, Any]:
    """One record: an index built here, opened and asked in `repeats` fresh processes; the median of each number."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        content_bytes = INDEXES[name][0](symbols, folder)
        (folder / "asked.json").write_text(json.dumps(asked))
        command = [sys.executable, __file__, "--probe", name, str(folder)]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats)]
        found = [json.loads(run.stdout) for run in runs]
        lookup = INDEXES[name][1](folder)
        for row in random.Random(1).sample(range(len(symbols)), 50):
            assert lookup(symbols[row]) == row  # noqa: S101 - an index that errs is not compared
    medians = {key: round(statistics.median(one[key] for one in found), 2) for key in found[0]}
    per_symbol = round(content_bytes / len(symbols), 3)
    return {"symbols": len(symbols), "kind": kind, "index": name, "bytes_per_symbol": per_symbol, **medians}


def joined_pairs(symbols: list[str], count: int) -> list[str]:
    """`count` distinct made symbols: pairs of real ones."""
    generator = random.Random(0)
    made: dict[str, None] = {}
    while len(made) < count:
        made[f"{generator.choice(symbols)}_{generator.choice(symbols)}"] = None
    return list(made)


def table(records: list[dict[str, Any]]) -> str:
    """The records as aligned text."""
    heads = [
        "symbols",
        "kind",
        "index",
        "bytes/symbol",
        "open ms",
        "first ms",
        "first MB",
        "warm ns",
        "spread ns",
        "MB",
    ]
    rows = [heads, *([str(value) for value in record.values()] for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="Compare ways to keep symbols.")
    parser.add_argument("--symbols", type=Path, help="text file with one symbol a line")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="a few thousand symbols of the embedded table, for tests")
    parser.add_argument("--probe", nargs=2, metavar=("INDEX", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        name, folder = arguments.probe
        asked = json.loads((Path(folder) / "asked.json").read_text())
        print(json.dumps(probe(name, Path(folder), asked)))
        return
    if arguments.tiny:
        from kdcode.data import glove_50d

        real, counts, lookups, repeats = list(glove_50d().symbols)[:2000], (3000, 4000), 300, 1
    elif arguments.symbols:
        text = arguments.symbols.read_text(encoding="utf-8")
        real, counts, lookups, repeats = text.rstrip("\n").split("\n")[:100_000], (400_000, 10_000_000), 20_000, 5
    else:
        parser.error("give --symbols or --tiny")
    kinds: dict[str, Callable[[], list[str]]] = {
        "real words": lambda: real,
        "pairs of words": lambda: joined_pairs(real, counts[0]),
        "numbered": lambda: [f"w{number}" for number in range(counts[1])],
    }
    records = []
    for kind, make in kinds.items():
        symbols = make()
        asked = questions(symbols, lookups)
        records += [measure(name, symbols, kind, asked, repeats) for name in INDEXES]
    settings = {"lookups": lookups, "repeats": repeats, "seed": 2}
    write_result(arguments.output, settings, records, ("numpy", "marisa-trie"))
    print(table(records))


if __name__ == "__main__":
    main()
