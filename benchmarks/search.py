"""How long a search for the 10 nearest of a million rows takes: kdcode, and faiss over the same codes and the vectors.

    python benchmarks/search.py --glove FOLDER

The tables are those of lookup.py: what `compress` makes of rows of 100 dimensions for the sizes 10x, 20x and 40x,
whatever it chooses, and codewords of K=256 and D=16 in int8. Queries are vectors of rows drawn at random, plus as much
normal noise; 1 or 64 of them are answered in a call, fresh ones for every call. Everything runs on one thread. Every
table has a process of its own, and on processors with AVX-512 another in which kdcode takes AVX2 alone. Contenders take
turns, and each makes a call that does not count first; times are medians over the turns, with the quartiles beside
them, and with the time of the processor.

faiss searches the decoded vectors in an IndexFlat (of length 1 for the cosine), and the index of `coded.to_faiss()`
where there is one: an IndexPQ of product codes, an IndexLocalSearchQuantizer of others; these have no cosine.
"Disagreements" counts the answers, of two queries, that are further away than the 10th of a search over all vectors in
float64.

Writes benchmarks/results/search.json and prints a table. It takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt
import own_process
from lookup import tried_sets
from lookup_contenders import spec_of
from made_tables import SIZES, chosen_table, made_table, save_chosen
from result_file import rounded, write_result
from turns import Contender, Plan, timed, times

from kdcode import _core
from kdcode.coded import CodedTable

RESULTS = Path(__file__).parent / "results" / "search.json"
NEAREST = 10
TABLES = (*SIZES, "product", "linear")
METRICS = ("dot", "l2", "cosine")
FLAT, CODES = "faiss IndexFlat", "faiss, same codes"

Record = dict[str, Any]
Floats = npt.NDArray[np.float32]
Search = Callable[[Floats], Any]
"""(q, d) queries to the (q, 10) rows that are nearest to each."""


class Size(NamedTuple):
    """How much is measured: rows, dimensions, and how often for each number of queries."""

    rows: int
    dim: int
    plans: dict[int, Plan]


WHOLE = Size(1_000_000, 100, {1: Plan(15, 1, 1), 64: Plan(5, 1, 1)})
TINY = Size(3000, 20, {1: Plan(2, 1, 1), 64: Plan(2, 0, 1)})


def searchers(coded: CodedTable, metric: str) -> dict[str, Search]:
    """All that search a table by a metric."""

    def ours(queries: Floats) -> Any:  # noqa: ANN401 - an array
        found = coded.neighbors(queries, NEAREST, metric=metric, threads=1)
        return [[int(row.symbol) for row in rows] for rows in found]

    vectors = coded.decode(np.arange(len(coded)))
    flat = faiss.IndexFlatL2(coded.embedding_dim) if metric == "l2" else faiss.IndexFlatIP(coded.embedding_dim)
    flat.add(vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if metric == "cosine" else vectors)
    found: dict[str, Search] = {"kdcode": ours, FLAT: lambda queries: flat.search(queries, NEAREST)[1]}
    if coded.codewords is not None and metric != "cosine":
        index = coded.to_faiss(metric)
        found[CODES] = lambda queries: index.search(queries, NEAREST)[1]
    return found


def distances(vectors: Floats, query: Floats, metric: str) -> npt.NDArray[np.float64]:
    """How far each vector is from a query, in float64: less is nearer."""
    rows, asked = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        return np.square(rows - asked).sum(axis=1)
    scores = rows @ asked
    return -(scores / np.linalg.norm(rows, axis=1) if metric == "cosine" else scores)


def disagreements(coded: CodedTable, search: Search, queries: Floats, metric: str) -> int:
    """How many rows are found that are further away than the 10th of a search over all vectors."""
    vectors, wrong = coded.decode(np.arange(len(coded))), 0
    for found, query in zip(search(queries), queries, strict=True):
        far = distances(vectors, query, metric)
        tenth = np.partition(far, NEAREST - 1)[NEAREST - 1]
        wrong += int((far[np.asarray(found)] > tenth + 1e-9 * abs(tenth)).sum())
    return wrong


def queries_for(coded: CodedTable) -> Callable[[int, int], list[Floats]]:
    """Draws queries: called with how many calls there are, and how many queries each has."""
    draw = np.random.default_rng(0)

    def fresh(calls: int, at_once: int) -> list[Floats]:
        near = coded.decode(draw.integers(len(coded), size=calls * at_once)).reshape(calls, at_once, -1)
        return list(near + near.std() * draw.normal(size=near.shape).astype(np.float32))

    return fresh


def measured(table: str, size: Size, folder: Path) -> Iterator[Record]:
    """Every metric and number of queries, with one table."""
    faiss.omp_set_num_threads(1)
    coded = (
        chosen_table(folder, size.rows, size.dim, table)
        if table in SIZES
        else made_table(spec_of(table, size.dim), size.rows)
    )
    fresh = queries_for(coded)
    for metric in METRICS:
        everyone = searchers(coded, metric)
        wrong = {name: disagreements(coded, search, fresh(1, 2)[0], metric) for name, search in everyone.items()}
        for at_once, plan in size.plans.items():
            contenders = {name: Contender(search) for name, search in everyone.items()}
            found = timed(contenders, lambda calls, at_once=at_once: fresh(calls, at_once), plan)  # type: ignore[misc]
            took = {name: times("ms", seconds, 1000 / at_once) for name, seconds in found.items()}
            shared = {"isa": _core.isa(), "table": table, "rows": size.rows, "metric": metric, "queries": at_once}
            for name, own in took.items():
                ratio = {"ratio": own["ms"] / took[FLAT]["ms"], "disagreements": wrong[name]}
                yield rounded({**shared, "contender": name, **own, **ratio}, 4)


def main() -> None:
    """Measure all tables, each in a process of its own, print the times and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy; the table of kdcode where left out")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="a small table and few calls, to see that it works")
    parser.add_argument("--only", nargs=2, metavar=("TABLE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = TINY if arguments.tiny else WHOLE
    if arguments.only:
        print(json.dumps({"rows": list(measured(arguments.only[0], size, Path(arguments.only[1])))}))
        return
    flags, rows = ["--tiny"] if arguments.tiny else [], []
    with tempfile.TemporaryDirectory() as folder:
        save_chosen(Path(folder), size.rows, size.dim, arguments.glove)
        for isa in tried_sets():
            for table in TABLES:
                kept = Path(folder) / f"{table}-{isa}.json"
                asked = [*flags, "--only", table, folder]
                rows += own_process.measured_apart(__file__, asked, kept, threads=1, isa=isa)["rows"]
    settings = {"dim": size.dim, "nearest": NEAREST, "seed": 0, "threads": 1}
    settings["plans"] = {at_once: plan._asdict() for at_once, plan in size.plans.items()}  # type: ignore[assignment]
    write_result(arguments.output, settings, rows, ("numpy", "faiss-cpu"))
    heads = "isa | table | metric | queries | contender | ms per query | of the processor | ratio | disagreements"
    print(f"| {heads} |\n{'|---' * 9}|")
    for row in rows:
        cells = [row[key] for key in ("isa", "table", "metric", "queries", "contender")]
        cells += [f"{row['ms']:.2f} ({row['ms_low']:.2f} to {row['ms_high']:.2f})", f"{row['ms_cpu']:.2f}"]
        cells += [f"{row['ratio']:.2f}", row["disagreements"]]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
