"""How long a lookup takes, in ns per row, and how much memory it takes: kdcode beside nn.Embedding, int8 and faiss.

    python benchmarks/lookup.py

Vectors have 100 dimensions, codes K=256 and D=16. Codes are random bytes and codewords random normal numbers: speed
does not depend on what they are. "int8 rows" is a matrix of int8 with a float32 scale for each row: torch selects rows
of both and multiplies them. faiss decodes the product codes with the index of `to_faiss`.

Everything runs on one thread, and every number of rows in a process of its own. Ids are drawn before the clock starts,
fresh ones for every call: evenly ("uniform"), or the id of rank r with probability proportional to 1/r ("zipf"), where
ranks are dealt out to the rows at random, so that frequent rows do not lie side by side. Contenders take turns. In a
turn, each makes some calls that do not count, and then some in a row that do, as in a server that does one thing; times
are medians over the turns, with the quartiles beside them. "Ratio" compares with nn.Embedding in float32 for the same
rows, ids and batch. Layers that keep all rows (`expand_below=`) have seen a million ids before.

Two more parts follow. "symbols": `coded["king"]` of a mapped file of 100,000 symbols, for 4,000 symbols that were
looked up before. "memory": how much more resident memory a process has after it opened a file (or made a layer from it)
and looked up every row, beside the bytes of the file; compiled code is loaded before.

Writes benchmarks/results/lookup.json and benchmarks/figures/lookup.svg, and prints tables. It takes some minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import own_process
import torch
from lookup_contenders import DIM, FULL, PLAIN, SPECS, Ids, contenders, hot_contenders
from lookup_figure import draw_figure
from made_tables import made_table
from result_file import rounded, write_result
from torch import nn
from turns import Contender, Plan, quartiles, timed

from kdcode import compiled
from kdcode.nn import CodedEmbedding
from kdcode.storage import load, save
from kdcode.symbols import StoredSymbols

RESULTS = Path(__file__).parent / "results" / "lookup.json"
FIGURE = Path(__file__).parent / "figures" / "lookup.svg"
Record = dict[str, Any]


class Size(NamedTuple):
    """How much is measured.

    Args:
        counts: numbers of rows; the last is that of the memory too.
        plans: for each batch.
        seen: ids that layers which keep rows have seen before.
        symbols: in the file that is asked for symbols, and how many of them are asked for.
        symbol_plan: for these.
    """

    counts: tuple[int, ...]
    plans: dict[int, Plan]
    seen: int
    symbols: tuple[int, int]
    symbol_plan: Plan


# The calls that do not count see so many rows that all codewords are in the caches.
WHOLE = Size(
    (10_000, 400_000, 1_000_000),
    {1: Plan(41, 1000, 200), 64: Plan(41, 60, 40), 4096: Plan(31, 4, 6), 65536: Plan(15, 1, 3)},
    1_000_000,
    (100_000, 4000),
    Plan(21, 4000, 4000),
)
TINY = Size((2000,), {1: Plan(2, 2, 2), 64: Plan(2, 1, 1)}, 1000, (3000, 100), Plan(2, 100, 100))


def zipf_of(rows: int) -> Callable[[tuple[int, int]], Ids]:
    """Draws ids: that of rank r with probability proportional to 1/r; ranks are dealt out at random."""
    draw = np.random.default_rng(1)
    row_of_rank = draw.permutation(rows)
    below = np.cumsum(1 / np.arange(1, rows + 1))
    below /= below[-1]
    return lambda shape: row_of_rank[np.minimum(np.searchsorted(below, draw.random(shape)), rows - 1)]


def uniform_of(rows: int) -> Callable[[tuple[int, int]], Ids]:
    """Draws ids evenly."""
    draw = np.random.default_rng(0)
    return lambda shape: draw.integers(rows, size=shape)


def lookups(rows: int, size: Size) -> Iterator[Record]:
    """Every batch of both kinds of ids, of all contenders with so many rows."""
    everyone, zipf = contenders(rows), zipf_of(rows)
    yield from measured(rows, "uniform", uniform_of(rows), everyone, size)
    hot = hot_contenders(rows)
    for contender in hot.values():
        with compiled.using(contender.setting):
            for ids in zipf((max(1, size.seen // 10_000), min(size.seen, 10_000))):
                contender.call(contender.given(ids))
    yield from measured(rows, "zipf", zipf, everyone | hot, size)


def measured(
    rows: int, ids: str, draw: Callable[[tuple[int, int]], Ids], everyone: dict[str, Contender], size: Size
) -> Iterator[Record]:
    """Every batch of one kind of ids."""
    for batch, plan in size.plans.items():
        with torch.inference_mode():
            found = timed(everyone, lambda calls, batch=batch: draw((calls, batch)), plan)  # type: ignore[misc]
        times = {name: quartiles("ns", [1e9 * one / batch for one in seconds]) for name, seconds in found.items()}
        for name, own in times.items():
            record = {"part": "lookup", "rows": rows, "ids": ids, "batch": batch, "contender": name}
            yield rounded({**record, **own, "ratio": own["ns"] / times[FULL]["ns"]}, 4)


def symbol_lookups(size: Size) -> Iterator[Record]:
    """`coded[symbol]` of a mapped file."""
    count, asked = size.symbols
    draw = np.random.default_rng(2)
    names = [f"w{number}" for number in range(count)]
    few = [names[number] for number in draw.permutation(count)[:asked]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.kdc"
        save(made_table(SPECS["linear int8"], count, StoredSymbols.build(names)), path)
        stored, indexed = load(path), load(path)
        indexed.index_symbols()
        everyone = {}
        for name, coded in {"coded[symbol]": stored, "coded[symbol], index_symbols": indexed}.items():
            everyone[name] = Contender(coded.__getitem__, setting=compiled.ALWAYS)
            everyone[name + PLAIN] = Contender(coded.__getitem__, setting=compiled.NEVER)
            coded[few]  # each was looked up before
        found = timed(
            everyone, lambda calls: [few[number] for number in draw.integers(asked, size=calls)], size.symbol_plan
        )
    for name, seconds in found.items():
        times = quartiles("us", [1e6 * one for one in seconds])
        yield rounded({"part": "symbols", "symbols": count, "contender": name, **times}, 4)


def _open_table(path: Path) -> Callable[[Ids], object]:
    return load(path).decode


def _open_layer(path: Path) -> Callable[[Ids], object]:
    layer = CodedEmbedding(path)
    return lambda ids: layer(torch.from_numpy(ids))


def _full_layer(path: Path) -> Callable[[Ids], object]:
    rows = len(load(path))
    layer = nn.Embedding(rows, DIM, _weight=torch.ones(rows, DIM))
    return lambda ids: layer(torch.from_numpy(ids))


OPENED: dict[str, Callable[[Path], Callable[[Ids], object]]] = {
    "kdcode.load": _open_table,
    "CodedEmbedding": _open_layer,
    FULL: _full_layer,
}
"""What is in memory, made from a file."""


def memory(name: str, folder: Path) -> Record:
    """What this process grows by when it opens the large file of a folder and looks up every row."""
    with compiled.using(compiled.ALWAYS):
        _look_all_up(OPENED[name](folder / "small.kdc"), folder / "small.kdc")  # loads everything that runs
        before = resident_bytes()
        opened = OPENED[name](folder / "large.kdc")
        _look_all_up(opened, folder / "large.kdc")
        grown = resident_bytes() - before
    rows, file_bytes = len(load(folder / "large.kdc")), (folder / "large.kdc").stat().st_size
    own = 4 * rows * DIM if name == FULL else file_bytes
    record = {"part": "memory", "rows": rows, "contender": name, "bytes": own, "resident_bytes": grown}
    return rounded({**record, "ratio": grown / own}, 4)


def _look_all_up(lookup: Callable[[Ids], object], path: Path) -> None:
    rows = len(load(path))
    for start in range(0, rows, 1000):
        for _ in range(2):  # a cache keeps what is asked for again
            lookup(np.arange(start, min(start + 1000, rows)))


def resident_bytes() -> int:
    """The memory of this process now, with what was read of mapped files; 0 where the system does not tell."""
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text(encoding="ascii").splitlines() if rollup.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def measured_parts(size: Size, flags: list[str], folder: Path) -> Iterator[Record]:
    """All parts, each in a process of its own that has one thread."""
    for name, rows in {"small": min(10_000, size.counts[0]), "large": size.counts[-1]}.items():
        save(made_table(SPECS["linear int8"], rows), folder / f"{name}.kdc")
    parts = [
        *(["lookup", str(rows)] for rows in size.counts),
        ["symbols", "all"],
        *(["memory", name] for name in OPENED),
    ]
    for number, part in enumerate(parts):
        kept = folder / f"{part[0]}-{number}.json"
        arguments = [*flags, "--only", *part, str(folder)]
        yield from own_process.measured_apart(__file__, arguments, kept, threads=1)["rows"]


def print_tables(rows: list[Record]) -> None:
    """Everything, as Markdown."""
    print("| rows | ids | batch | contender | ns per row | ratio |\n|---|---|---|---|---|---|")
    for row in rows:
        if row["part"] == "lookup":
            shown = f"{row['rows']:,} | {row['ids']} | {row['batch']:,} | {row['contender']}"
            print(f"| {shown} | {row['ns']:.0f} ({row['ns_low']:.0f} to {row['ns_high']:.0f}) | {row['ratio']:.2f} |")
    print("\n| symbols | contender | µs |\n|---|---|---|")
    for row in rows:
        if row["part"] == "symbols":
            print(f"| {row['symbols']:,} | {row['contender']} | {row['us']:.1f} |")
    print("\n| rows | contender | MB | resident MB | ratio |\n|---|---|---|---|---|")
    for row in rows:
        if row["part"] == "memory":
            sizes = f"{row['bytes'] / 1e6:.1f} | {row['resident_bytes'] / 1e6:.1f}"
            print(f"| {row['rows']:,} | {row['contender']} | {sizes} | {row['ratio']:.3f} |")


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="where the figure goes")
    parser.add_argument("--tiny", action="store_true", help="small tables and few calls, to see that it works")
    parser.add_argument("--only", nargs=3, metavar=("PART", "WHAT", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = TINY if arguments.tiny else WHOLE
    if arguments.only:
        torch.set_num_threads(1)
        part, what, folder = arguments.only
        made: dict[str, Callable[[], Iterable[Record]]] = {
            "lookup": lambda: lookups(int(what), size),
            "symbols": lambda: symbol_lookups(size),
            "memory": lambda: [memory(what, Path(folder))],
        }
        print(json.dumps({"rows": list(made[part]())}))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measured_parts(size, ["--tiny"] if arguments.tiny else [], Path(folder)))
    settings = {"dim": DIM, "codebook_size": 256, "code_length": 16, "seed": 0, "threads": 1}
    settings["plans"] = {batch: plan._asdict() for batch, plan in size.plans.items()}  # type: ignore[assignment]
    write_result(arguments.output, settings, rows, ("numpy", "torch", "numba", "faiss-cpu"))
    draw_figure(rows, arguments.figure)
    print_tables(rows)


if __name__ == "__main__":
    main()
