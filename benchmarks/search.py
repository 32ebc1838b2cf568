"""How long a search for the 10 nearest of a million rows takes: kdcode, faiss over the same codes, and decoding all.

    python benchmarks/search.py

Vectors have 96 dimensions and codes 128 bits, with codebooks in int8. Codes are random bytes and codewords random
normal numbers: speed hardly depends on what they are. Queries are vectors of rows drawn at random, plus as much normal
noise; 1 or 16 of them are answered in a call, fresh ones for every call. Contenders take turns, and each makes a call
that does not count first; times are medians over the turns, with the quartiles beside them.

faiss searches the index of `coded.to_faiss()`: an IndexPQ of product codes, an IndexLocalSearchQuantizer of others; it
has no cosine. "decode everything" decodes 8,192 rows at a time with compiled code, multiplies them with the queries,
and takes the 10 best of all by argpartition; it is given the lengths of all rows, and runs on one thread.
"Disagreements" counts the ids that are not among the 10 of a search over all vectors in float64.

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
from made_tables import made_table
from result_file import rounded, write_result
from turns import Contender, Plan, quartiles, timed

from kdcode import compiled
from kdcode.codec import CodecSpec
from kdcode.coded import CodedTable

RESULTS = Path(__file__).parent / "results" / "search.json"
DIM, NEAREST, CHUNK = 96, 10, 8192
SPECS = {
    "product K=256 D=16": CodecSpec.named("product", DIM, 256, 16, codebook_dtype="int8"),
    "linear K=256 D=16": CodecSpec.named("linear", DIM, 256, 16, codebook_dtype="int8"),
    "linear K=16 D=32": CodecSpec.named("linear", DIM, 16, 32, codebook_dtype="int8"),
}
METRICS = ("dot", "l2", "cosine")
DECODED = "decode everything"

Record = dict[str, Any]
Queries = npt.NDArray[np.float32]
Search = Callable[[Queries], Any]
"""(q, d) queries to the (q, 10) rows that are nearest to each."""


class Size(NamedTuple):
    """How much is measured: rows, how often for each number of queries at a time, and how many answers are checked."""

    rows: int
    plans: dict[int, Plan]
    checked: dict[int, int]


WHOLE = Size(1_000_000, {1: Plan(15, 1, 1), 16: Plan(7, 1, 1)}, {1: 4, 16: 16})
TINY = Size(3000, {1: Plan(2, 1, 1), 16: Plan(2, 0, 1)}, {1: 2, 16: 16})


class Searcher(NamedTuple):
    """A contender, and what the result says of it."""

    name: str
    threads: int
    search: Search
    setting: str = compiled.ALWAYS


def searchers(coded: CodedTable, metric: str) -> list[Searcher]:
    """All that search by a metric."""

    def ours(threads: int) -> Search:
        return lambda queries: [
            [int(row.symbol) for row in found]
            for found in coded.neighbors(queries, NEAREST, metric=metric, threads=threads)
        ]

    found = [Searcher("kdcode", threads, ours(threads)) for threads in (1, 2)]
    found.append(Searcher("kdcode, not compiled", 1, ours(1), compiled.NEVER))
    found.append(Searcher(DECODED, 1, decoding_search(coded, metric, np.float32)))
    if metric != "cosine":
        index = coded.to_faiss(metric)
        found += [Searcher("faiss", threads, _faiss_search(index, threads)) for threads in (1, 2)]
    return found


def _faiss_search(index: Any, threads: int) -> Search:  # noqa: ANN401 - a class of faiss
    def search(queries: Queries) -> Any:  # noqa: ANN401 - an array
        faiss.omp_set_num_threads(threads)
        return index.search(queries, NEAREST)[1]

    return search


def decoding_search(coded: CodedTable, metric: str, dtype: npt.DTypeLike) -> Search:
    """Decodes all rows for every call, and computes in a type."""
    norms = coded.norms.astype(dtype)

    def search(queries: Queries) -> Any:  # noqa: ANN401 - an array
        asked, scores = queries.astype(dtype), np.empty((len(queries), len(coded)), dtype=dtype)
        for start in range(0, len(coded), CHUNK):
            part = slice(start, min(start + CHUNK, len(coded)))
            np.matmul(
                asked, coded.decode(np.arange(part.start, part.stop)).astype(dtype, copy=False).T, scores[:, part]
            )
        if metric == "l2":
            scores -= norms**2 / 2
        elif metric == "cosine":
            scores /= norms
        best = np.argpartition(scores, -NEAREST, axis=1)[:, -NEAREST:]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)

    return search


def queries_for(coded: CodedTable) -> Callable[[int, int], list[Queries]]:
    """Draws queries: called with how many calls there are, and how many queries each has."""
    draw = np.random.default_rng(0)

    def fresh(calls: int, at_once: int) -> list[Queries]:
        near = coded.decode(draw.integers(len(coded), size=(calls, at_once)))
        return list(near + near.std() * draw.normal(size=near.shape).astype(np.float32))

    return fresh


def disagreements(searcher: Searcher, asked: list[Queries], exact: list[Any]) -> int:
    """How many ids are found that are not among the nearest."""
    wrong = 0
    with compiled.using(searcher.setting):
        for queries, nearest in zip(asked, exact, strict=True):
            for found, right in zip(searcher.search(queries), nearest, strict=True):
                wrong += NEAREST - len({int(row) for row in found} & {int(row) for row in right})
    return wrong


def measured(table: str, size: Size) -> Iterator[Record]:
    """Every metric and number of queries, with one table."""
    with compiled.using(compiled.ALWAYS):
        coded = made_table(SPECS[table], size.rows)
        fresh = queries_for(coded)
        for metric in METRICS:
            everyone, brute = searchers(coded, metric), decoding_search(coded, metric, np.float64)
            for at_once, plan in size.plans.items():
                asked = fresh(size.checked[at_once] // at_once, at_once)
                exact = [brute(queries) for queries in asked]
                wrong = [disagreements(searcher, asked, exact) for searcher in everyone]
                contenders = {
                    str(number): Contender(one.search, setting=one.setting) for number, one in enumerate(everyone)
                }
                found = timed(contenders, lambda calls, at_once=at_once: fresh(calls, at_once), plan)  # type: ignore[misc]
                times = [quartiles("ms", [1000 * one / at_once for one in seconds]) for seconds in found.values()]
                shared = {"table": table, "rows": size.rows, "metric": metric, "queries": at_once}
                yield from _compared(shared, everyone, times, wrong)


def _compared(shared: Record, everyone: list[Searcher], times: list[Record], wrong: list[int]) -> Iterator[Record]:
    """The records of one cell, each compared with faiss on as many threads and with decoding all rows."""
    by_name = {(one.name, one.threads): own["ms"] for one, own in zip(everyone, times, strict=True)}
    for one, own, count in zip(everyone, times, wrong, strict=True):
        theirs = by_name.get(("faiss", one.threads))
        ratios = {
            "ratio_to_faiss": None if theirs is None else own["ms"] / theirs,
            "times_faster_than_decoding": by_name[DECODED, 1] / own["ms"],
        }
        yield rounded(
            {**shared, "contender": one.name, "threads": one.threads, **own, **ratios, "disagreements": count}, 4
        )


def main() -> None:
    """Measure all tables, each in a process of its own, print the times and write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="a small table and few calls, to see that it works")
    parser.add_argument("--only", choices=SPECS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = TINY if arguments.tiny else WHOLE
    if arguments.only:
        print(json.dumps({"rows": list(measured(arguments.only, size))}))
        return
    flags, rows = ["--tiny"] if arguments.tiny else [], []
    with tempfile.TemporaryDirectory() as folder:
        for table in SPECS:
            kept = Path(folder) / f"{table}.json"
            rows += own_process.measured_apart(__file__, [*flags, "--only", table], kept, threads=1)["rows"]
    settings = {"dim": DIM, "nearest": NEAREST, "seed": 0, "codebook_dtype": "int8"}
    settings["plans"] = {at_once: plan._asdict() for at_once, plan in size.plans.items()}
    write_result(arguments.output, settings, rows, ("numpy", "numba", "faiss-cpu"))
    heads = "table | metric | queries | contender | threads | ms per query | of faiss | decoding / this | disagreements"
    print(f"| {heads} |\n{'|---' * 9}|")
    for row in rows:
        cells = [row[key] for key in ("table", "metric", "queries", "contender", "threads")]
        cells += [f"{row['ms']:.2f} ({row['ms_low']:.2f} to {row['ms_high']:.2f})"]
        cells += ["–" if row["ratio_to_faiss"] is None else f"{row['ratio_to_faiss']:.2f}"]
        cells += [f"{row['times_faster_than_decoding']:.1f}", row["disagreements"]]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
