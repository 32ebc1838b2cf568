"""How long a lookup takes, in ns per row, and how much memory it takes: kdcode beside nn.Embedding, int8 and faiss.

    python benchmarks/lookup.py --glove FOLDER

The tables of kdcode are those that `compress` makes for the sizes 10x, 20x and 40x, whatever it chooses, and codewords
of K=256 and D=16 in int8. The rows for `compress` are made out of real ones; codewords are random numbers, since speed
does not depend on what they are. "int8 rows" is a matrix of int8 with a float32 scale for each row: torch selects rows
of both and multiplies them. faiss decodes the product codes with the index of `to_faiss`.

Everything runs on one thread. Every shape of table has a process of its own, and on processors with AVX-512 another in
which kdcode takes AVX2 alone. Ids are drawn evenly before the clock starts, fresh ones for every call. Contenders take
turns. In a turn, each makes some calls that do not count, and then some in a row that do, as in a server that does one
thing; times are medians over the turns, with the quartiles beside them, and with the time of the processor. "Ratio"
compares with nn.Embedding in float32 for the same rows, ids and batch, in the same process.

Two more parts follow. "symbols": `coded["king"]` of a mapped file, for symbols drawn evenly from all. "memory":
how much more resident memory a process has after it opened a file (or made a layer from it) and looked up every row,
beside the bytes of the file; what is imported was loaded before.

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
from lookup_contenders import FULL, Ids, contenders, spec_of
from lookup_figure import draw_figure
from made_tables import SIZES, chosen_table, made_table, save_chosen
from result_file import rounded, write_result
from torch import nn
from turns import Contender, Plan, timed, times

from kdcode import _core
from kdcode.coded import CodedTable
from kdcode.nn import CodedEmbedding
from kdcode.storage import load, save
from kdcode.symbols import StoredSymbols

RESULTS = Path(__file__).parent / "results" / "lookup.json"
FIGURE = Path(__file__).parent / "figures" / "lookup.svg"
Record = dict[str, Any]


class Size(NamedTuple):
    """How much is measured.

    Args:
        shapes: rows and dimensions of tables; the first is that of the symbols and the memory too.
        plans: for each batch.
        symbol_plan: for symbols.
    """

    shapes: tuple[tuple[int, int], ...]
    plans: dict[int, Plan]
    symbol_plan: Plan


# The calls that do not count see so many rows that all codewords are in the caches.
WHOLE = Size(
    ((1_000_000, 100), (10_000, 100), (100_000, 768)),
    {1: Plan(31, 500, 200), 32: Plan(31, 60, 40), 512: Plan(31, 8, 8), 4096: Plan(21, 2, 4), 65536: Plan(9, 1, 1)},
    Plan(21, 2000, 2000),
)
TINY = Size(((2000, 20), (500, 20)), {1: Plan(2, 2, 2), 32: Plan(2, 1, 1)}, Plan(2, 50, 50))


def lookups(rows: int, dim: int, size: Size, folder: Path) -> Iterator[Record]:
    """Every batch, of all contenders with tables of a shape."""
    everyone, draw = contenders(rows, dim, folder), np.random.default_rng(0)
    for batch, plan in size.plans.items():
        with torch.inference_mode():
            found = timed(everyone, lambda calls, batch=batch: draw.integers(rows, size=(calls, batch)), plan)  # type: ignore[misc]
        took = {name: times("ns", seconds, 1e9 / batch) for name, seconds in found.items()}
        for name, own in took.items():
            record = {"part": "lookup", "isa": _core.isa(), "rows": rows, "dim": dim, "batch": batch, "contender": name}
            yield rounded({**record, **own, "ratio": own["ns"] / took[FULL]["ns"]}, 4)


def symbol_lookups(rows: int, dim: int, size: Size, folder: Path) -> Iterator[Record]:
    """`coded[symbol]` of a mapped file."""
    names, draw = [f"w{number}" for number in range(rows)], np.random.default_rng(2)
    symbols, everyone = StoredSymbols.build(names), {}
    made = {size: chosen_table(folder, rows, dim, size) for size in SIZES}
    for name, coded in (made | {"linear": made_table(spec_of("linear", dim), rows)}).items():
        save(CodedTable(symbols, coded.packed, coded.codec), folder / f"named-{name}.kdc")
        everyone[name] = Contender(load(folder / f"named-{name}.kdc").__getitem__)
    found = timed(everyone, lambda calls: [names[row] for row in draw.integers(rows, size=calls)], size.symbol_plan)
    for name, seconds in found.items():
        record = {"part": "symbols", "isa": _core.isa(), "rows": rows, "dim": dim, "contender": name}
        yield rounded({**record, **times("us", seconds, 1e6)}, 4)


def _open_table(path: Path) -> Callable[[Ids], object]:
    return load(path).decode


def _open_layer(path: Path) -> Callable[[Ids], object]:
    layer = CodedEmbedding(path)
    return lambda ids: layer(torch.from_numpy(ids))


def _full_layer(path: Path) -> Callable[[Ids], object]:
    coded = load(path)
    shape = len(coded), coded.embedding_dim
    layer = nn.Embedding(*shape, _weight=torch.ones(shape))
    return lambda ids: layer(torch.from_numpy(ids))


OPENED: dict[str, Callable[[Path], Callable[[Ids], object]]] = {
    "kdcode.load": _open_table,
    "CodedEmbedding": _open_layer,
    FULL: _full_layer,
}
"""What is in memory, made from a file."""


def memory(rows: int, dim: int, size: Size, folder: Path) -> Iterator[Record]:
    """What this process grows by when it opens a large file at 20x and looks up every row."""
    (small, _), large = size.shapes[1], folder / f"{rows}x{dim}-20x.kdc"
    for name, opened in OPENED.items():
        first = folder / f"{small}x{dim}-20x.kdc"
        _look_all_up(opened(first), first)  # loads everything that runs
        before = resident_bytes()
        lookup = opened(large)
        _look_all_up(lookup, large)
        grown, own = resident_bytes() - before, 4 * rows * dim if name == FULL else large.stat().st_size
        record = {"part": "memory", "isa": _core.isa(), "rows": rows, "dim": dim, "contender": name}
        yield rounded({**record, "bytes": own, "resident_bytes": grown, "ratio": grown / own}, 4)
        del lookup


def _look_all_up(lookup: Callable[[Ids], object], path: Path) -> None:
    rows = len(load(path))
    for start in range(0, rows, 1000):
        lookup(np.arange(start, min(start + 1000, rows)))


def resident_bytes() -> int:
    """The memory of this process now, with what was read of mapped files; 0 where the system does not tell."""
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text(encoding="ascii").splitlines() if rollup.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Rss:"))


PARTS: dict[str, Callable[[int, int, Size, Path], Iterable[Record]]] = {
    "lookup": lookups,
    "symbols": symbol_lookups,
    "memory": memory,
}


def measured_parts(size: Size, flags: list[str], folder: Path) -> Iterator[Record]:
    """All parts, each in a process of its own that has one thread."""
    parts = [("lookup", shape, isa) for isa in tried_sets() for shape in size.shapes]
    parts += [("symbols", size.shapes[0], ""), ("memory", size.shapes[0], "")]
    for number, (part, shape, isa) in enumerate(parts):
        kept = folder / f"{part}-{number}.json"
        arguments = [*flags, "--only", part, *map(str, shape), str(folder)]
        yield from own_process.measured_apart(__file__, arguments, kept, threads=1, isa=isa)["rows"]


def tried_sets() -> tuple[str, ...]:
    """The instruction sets that are measured: the best, and AVX2 where that is less."""
    return ("", "avx2") if _core.isa() == "avx512" else ("",)


def print_tables(rows: list[Record]) -> None:
    """Everything, as Markdown."""
    print(f"| isa | rows x dim | batch | contender | ns per row | of the processor | ratio |\n{'|---' * 7}|")
    for row in rows:
        if row["part"] == "lookup":
            shown = f"{row['isa']} | {row['rows']:,} x {row['dim']} | {row['batch']:,} | {row['contender']}"
            spread = f"{row['ns']:.0f} ({row['ns_low']:.0f} to {row['ns_high']:.0f}) | {row['ns_cpu']:.0f}"
            print(f"| {shown} | {spread} | {row['ratio']:.2f} |")
    print("\n| symbols | contender | µs |\n|---|---|---|")
    for row in rows:
        if row["part"] == "symbols":
            print(f"| {row['rows']:,} | {row['contender']} | {row['us']:.1f} |")
    print("\n| rows | contender | MB | resident MB | ratio |\n|---|---|---|---|---|")
    for row in rows:
        if row["part"] == "memory":
            sizes = f"{row['bytes'] / 1e6:.1f} | {row['resident_bytes'] / 1e6:.1f}"
            print(f"| {row['rows']:,} | {row['contender']} | {sizes} | {row['ratio']:.3f} |")


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy; the table of kdcode where left out")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="where the figure goes")
    parser.add_argument("--tiny", action="store_true", help="small tables and few calls, to see that it works")
    parser.add_argument("--only", nargs=4, metavar=("PART", "ROWS", "DIM", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = TINY if arguments.tiny else WHOLE
    if arguments.only:
        torch.set_num_threads(1)
        part, rows, dim, folder = arguments.only
        print(json.dumps({"rows": list(PARTS[part](int(rows), int(dim), size, Path(folder)))}))
        return
    with tempfile.TemporaryDirectory() as folder:
        for shape in size.shapes:
            save_chosen(Path(folder), *shape, arguments.glove)
        found = list(measured_parts(size, ["--tiny"] if arguments.tiny else [], Path(folder)))
    settings = {"codebook_size": 256, "code_length": 16, "seed": 0, "threads": 1}
    settings["plans"] = {batch: plan._asdict() for batch, plan in size.plans.items()}  # type: ignore[assignment]
    write_result(arguments.output, settings, found, ("numpy", "torch", "faiss-cpu"))
    draw_figure(found, arguments.figure)
    print_tables(found)


if __name__ == "__main__":
    main()
