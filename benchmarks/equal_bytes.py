"""kdcode and its peers at equal total bytes: error, neighbours kept, speed and memory, in one run.

    python benchmarks/equal_bytes.py --glove FOLDER --minilm FILE --smollm2 FILE --work FOLDER

Bytes are everything that decoding needs. Every method is at its best setting under the budget: all settings that are
quick to learn are tried, and of the slow ones those that a quick relative ranks first on some of the rows (`peers.py`).
Beside them stands the Gaussian limit: the least error that any code of so many bits for a row could have if rows were
drawn from the Gaussian of the table's covariance, with nothing taken off for what all rows share. Each method has
a process of its own, with the same number of threads, and is given up after `--minutes`. Finished records are kept in
the work folder, and not measured again. A run of some cells replaces these in the result, and leaves the others as they
are; a record has the date of its measurement. Training has two times: by the clock, and of the processor, all threads
together, which other work beside hardly changes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from equal_bytes_figure import LIMIT, draw
from own_process import measured_apart
from peer_kinds import Fitted, Matrix, Peer, Setting
from peers import PEERS
from result_file import renewed_rows, write_result

import kdcode
from kdcode.evaluation.rate_distortion import gaussian_limit, principal_variances
from kdcode.options import CompressOptions

if TYPE_CHECKING:
    from kdcode.learning import Plan

RESULTS = Path(__file__).parent / "results" / "equal_bytes.json"
FIGURE = Path(__file__).parent / "figures" / "equal_bytes.svg"
TIMES = (8, 10, 20, 40, 80)
OURS = {"kdcode": "normal", "kdcode, fast": "fast", "kdcode, best": "best"}
EVERYONE = [*OURS, *(peer.name for peer in PEERS), LIMIT]
TOKEN_TABLES = {"minilm": "embeddings.word_embeddings.weight", "smollm2": "token_embd.weight"}
GLOVE_ROWS = {"glove-50k": 50_000, "glove-100k": 100_000}
QUERIES, NEIGHBOURS = 1000, 10
LOOK_ROWS, LOOK_UNSEEN = 8192, 2048
"""Of a table, those that settings are ranked by: to learn from, and to judge by besides."""
SHORTLIST = 6
"""Settings that are looked at a second time, where a method has a second look."""
FILES = {
    "glove": "folder with vectors.npy of GloVe, 100 dimensions",
    "minilm": "model.safetensors of all-MiniLM-L6-v2",
    "smollm2": "GGUF file of SmolLM2-135M",
}
Made = TypeVar("Made")


class Spent(NamedTuple):
    """Seconds of some work: by the clock, and of the processor in all threads."""

    clock: float
    processor: float


def read_table(name: str, files: dict[str, Path | None]) -> Matrix:
    """(N, d) vectors of a table, from the file or folder that it is in: of `glove`, `minilm` or `smollm2`."""
    if name == "tiny":
        from kdcode.data import glove_50d

        return np.asarray(glove_50d().head(400).matrix, dtype=np.float32)
    path = files.get(name.partition("-")[0])
    if path is None:
        raise SystemExit(f"{name}: give the file or folder that it is in, --glove, --minilm or --smollm2")
    if name in TOKEN_TABLES:
        return np.asarray(kdcode.read(path, tensor=TOKEN_TABLES[name]).matrix, dtype=np.float32)
    return np.load(path / "vectors.npy", mmap_mode="r")[: GLOVE_ROWS[name]].astype(np.float32)


def measure(vectors: Matrix, method: str, most: int) -> dict[str, Any]:
    """One method at its best setting that takes at most so many bytes, or the limit of so many."""
    if method == LIMIT:
        limit = gaussian_limit(principal_variances(kdcode.VectorTable(None, vectors)), 8 * most / len(vectors))
        return {"method": method, "setting": {}, "bytes": most, "relative_error": round(limit, 5)}
    if method in OURS:
        setting, size, fitted, spent = _fit_ours(vectors, OURS[method], most)
    else:
        peer = next(peer for peer in PEERS if peer.name == method)
        found = _fit_peer(vectors, peer, most)
        if found is None:
            return {"method": method, "setting": None, "bytes": None}
        setting, size, fitted, spent = found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    error = np.square(fitted.copy - vectors).sum() / np.square(vectors - vectors.mean(axis=0)).sum()
    new = vectors[:: max(1, len(vectors) // 5000)].copy()
    return {
        "method": method,
        "setting": setting,
        "bytes": size,
        "relative_error": round(float(error), 5),
        "mean_cosine": round(float(np.mean(_cosines(vectors, fitted.copy))), 5),
        "neighbour_overlap": round(_overlap(vectors, fitted.copy), 4),
        "train_seconds": round(spent.clock, 2),
        "train_cpu_seconds": round(spent.processor, 2),
        "encode_rows_per_second": None if fitted.encode is None else _rate(lambda: fitted.encode(new), len(new)),
        "decode_rows_per_second": None if fitted.decode is None else _rate(fitted.decode, len(vectors)),
        "peak_mb": peak,
    }


def _fit_ours(vectors: Matrix, effort: str, most: int) -> tuple[Setting, int, Fitted, Spent]:
    """What `kdcode compress --size` does; the time of planning counts."""
    from kdcode.learning.planning.candidates import PLANNED  # with torch, which peers need not wait for

    table = kdcode.VectorTable(None, vectors)
    times = 4 * vectors.size / most

    def learn() -> tuple[Plan, kdcode.CodedTable]:
        plan = kdcode.plan(table, f"{times:.6f}x", options=CompressOptions.of(effort=effort))
        return plan, kdcode.compress(table, options=plan.recommended.options)

    (plan, coded), spent = _timed(learn)
    options = coded.provenance["options"]
    setting = {name: options[name] for name in (*PLANNED, "effort") if options.get(name) is not None}
    setting["predicted_error"] = round(plan.recommended.relative_error, 5)
    rows = np.arange(len(coded))
    fitted = Fitted(coded.decode(rows), coded.encode, lambda: coded.decode(rows))
    return setting, coded.sizes.embedding, fitted, spent


def _fit_peer(vectors: Matrix, peer: Peer, most: int) -> tuple[Setting, int, Fitted, Spent] | None:
    """The best of all settings, or of those that quick looks rank first; the time is that of the best alone."""
    settings = list(peer.settings(*vectors.shape, most))
    for look, kept in ((peer.look, SHORTLIST if peer.second_look else peer.learned), (peer.second_look, peer.learned)):
        if look is not None and len(settings) > kept:
            settings = sorted(settings, key=lambda one, look=look: _expected_error(vectors, look, one[0]))[:kept]
    best: tuple[Setting, int, Fitted, Spent] | None = None
    for setting, size in settings:
        fitted, spent = _timed(lambda setting=setting: peer.fit(vectors, setting))
        if best is None or np.square(fitted.copy - vectors).sum() < np.square(best[2].copy - vectors).sum():
            best = (fitted.setting or setting, fitted.size or size, fitted, spent)
    return best


def _expected_error(vectors: Matrix, fit: Callable[[Matrix, Setting], Fitted], setting: Setting) -> float:
    """The squared error per row that all rows may be expected to have, from some of them.

    Rows that codebooks were learned from have a lower error than others: about as far below that of endless rows as
    others are above it, and the distance shrinks as there are more rows to learn from.
    """
    if len(vectors) <= LOOK_ROWS + LOOK_UNSEEN:
        return float(np.square(fit(vectors, setting).copy - vectors).sum(axis=1).mean())
    order = np.random.default_rng(0).permutation(len(vectors))
    seen, unseen = vectors[order[:LOOK_ROWS]], vectors[order[LOOK_ROWS : LOOK_ROWS + LOOK_UNSEEN]]
    fitted = fit(seen, setting)
    copy = unseen if fitted.recode is None else fitted.recode(unseen)
    low, high = (
        float(np.square(one - other).sum(axis=1).mean()) for one, other in ((seen, fitted.copy), (unseen, copy))
    )
    return (low + high) / 2 - (high - low) / 2 * len(seen) / len(vectors)


def _timed(work: Callable[[], Made]) -> tuple[Made, Spent]:
    clock, processor = time.perf_counter(), time.process_time()
    made = work()
    return made, Spent(time.perf_counter() - clock, time.process_time() - processor)


def _rate(work: Callable[[], object], rows: int) -> int:
    """Rows per second, the median of three."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return round(rows / sorted(seconds)[1])


def _cosines(one: Matrix, other: Matrix) -> Matrix:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray(np.einsum("ij,ij->i", one, other) / np.maximum(lengths, 1e-12))


def _overlap(vectors: Matrix, copy: Matrix) -> float:
    """Share of the nearest rows by cosine that are still among them, over queries drawn once."""
    queries = np.random.default_rng(0).permutation(len(vectors))[:QUERIES]
    near, still = (_nearest(table, queries) for table in (vectors, copy))
    return float(np.mean([len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(near, still, strict=True)]))


def _nearest(table: Matrix, queries: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    scores = unit[queries] @ unit.T
    scores[np.arange(len(queries)), queries] = -np.inf
    return np.argpartition(-scores, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def cell(arguments: argparse.Namespace, table: str, times: int, method: str) -> dict[str, Any]:
    """The record of a cell: measured by a process of its own, unless the work folder has it."""
    flags = ["--only", table, str(times), method, "--threads", str(arguments.threads)]
    for name in FILES:
        if getattr(arguments, name):
            flags += [f"--{name}", str(getattr(arguments, name))]
    kept = arguments.work / f"{table}-{times}x-{method.replace(' ', '_').replace(',', '')}.json"
    record = measured_apart(__file__, flags, kept, arguments.threads, arguments.minutes)
    return {"table": table, "times": times, "method": method, "bytes": None, **record}


def dated(record: dict[str, Any], threads: int) -> dict[str, Any]:
    """A record with how many threads it was measured with, and on which day."""
    return {**record, "threads": threads, "date": datetime.date.today().isoformat()}


def outcome(row: dict[str, Any]) -> str:
    """What came of a cell, in a few words."""
    if row["bytes"] is None:
        return "not finished" if "unfinished_minutes" in row else "does not fit"
    return f"{row['relative_error']:.5f}  {row.get('train_seconds', 0):8.1f} s"


def _place(row: dict[str, Any]) -> tuple[int, ...]:
    tables = (*GLOVE_ROWS, *TOKEN_TABLES, "tiny")
    return tables.index(row["table"]), row["times"], EVERYONE.index(row["method"])


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="kdcode and its peers at equal total bytes.")
    for name, meaning in FILES.items():
        parser.add_argument(f"--{name}", type=Path, help=meaning)
    parser.add_argument("--work", type=Path, default=Path("equal_bytes-work"), help="where finished records are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="where the figure goes")
    parser.add_argument(
        "--tables", default=",".join((*GLOVE_ROWS, *TOKEN_TABLES)), help="which tables, with commas between"
    )
    parser.add_argument("--times", default=",".join(map(str, TIMES)), help="how many times smaller")
    parser.add_argument("--methods", help="which methods, with semicolons between; all by default")
    parser.add_argument("--threads", type=int, default=2, help="of every method")
    parser.add_argument("--minutes", type=float, default=45, help="to give up a method in a cell after")
    parser.add_argument("--only", nargs=3, metavar=("TABLE", "TIMES", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        table, times, method = arguments.only
        vectors = read_table(table, {name: getattr(arguments, name) for name in FILES})
        print(json.dumps(dated(measure(vectors, method, 4 * vectors.size // int(times)), arguments.threads)))
        return
    methods = arguments.methods.split(";") if arguments.methods else EVERYONE
    cells = [
        cell(arguments, table, int(times), method)
        for table in arguments.tables.split(",")
        for times in arguments.times.split(",")
        for method in methods
    ]
    rows = renewed_rows(arguments.output, cells, _place)
    settings = {
        "seed": 0,
        "queries": QUERIES,
        "neighbours": NEIGHBOURS,
    }
    write_result(arguments.output, settings, rows, ("numpy", "torch", "faiss-cpu"))
    draw(rows, arguments.figure)
    for row in cells:
        print(f"{row['table']:11}{row['times']:4}x  {row['method']:20} {outcome(row)}")


if __name__ == "__main__":
    main()
