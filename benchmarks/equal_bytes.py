"""kdcode and its peers at equal total bytes: error, neighbours kept, speed and memory, in one run.

    python benchmarks/equal_bytes.py --glove FOLDER --minilm FILE --work FOLDER

Bytes are everything that decoding needs. Every method is at its best setting under the budget: all settings that are
quick to learn are tried, and of the slow ones the one that a quick relative ranks first (`peers.py`). Each method has
a process of its own, with the same number of threads, and is given up after `--minutes`. Finished records are kept in
the work folder, and not measured again. Training has two times: by the clock, and of the processor, all threads
together, which other work beside hardly changes.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from own_process import measured_apart
from peers import PEERS, Fitted, Matrix, Peer, Setting
from result_file import write_result

import kdcode
from kdcode.learning import Plan
from kdcode.learning.planning import PLANNED
from kdcode.options import CompressOptions

RESULTS = Path(__file__).parent / "results" / "equal_bytes.json"
FIGURE = Path(__file__).parent / "figures" / "equal_bytes.svg"
TIMES = (10, 20, 40, 80)
OURS = {"kdcode": "normal", "kdcode, fast": "fast", "kdcode, best": "best"}
TOKEN_TABLE = "embeddings.word_embeddings.weight"
QUERIES, NEIGHBOURS = 1000, 10
Made = TypeVar("Made")
STYLES: dict[str, dict[str, Any]] = {
    "kdcode": {"marker": "o", "color": "#c1272d", "linewidth": 2.4},
    "kdcode, fast": {"marker": "o", "linestyle": "--", "color": "#c1272d"},
    "kdcode, best": {"marker": "o", "linestyle": ":", "color": "#c1272d"},
    "faiss LSQ": {"marker": "o", "color": "#00468c"},
    "faiss RQ": {"marker": "s", "color": "#3f8fd2"},
    "faiss OPQ": {"marker": "o", "color": "#2e7d32"},
    "faiss PQ": {"marker": "s", "color": "#81b366"},
    "int4 rows": {"marker": "^", "color": "#555555"},
    "int8 rows": {"marker": "v", "color": "#888888"},
    "SVD, float16": {"marker": "x", "color": "#bbbbbb"},
}
"""How the figure draws each method, in the order of its legend."""


class Spent(NamedTuple):
    """Seconds of some work: by the clock, and of the processor in all threads."""

    clock: float
    processor: float


def read_table(name: str, glove: Path | None, minilm: Path | None) -> Matrix:
    """(N, d) vectors of a table."""
    if name == "tiny":
        from kdcode.data import glove_50d

        return np.asarray(glove_50d().head(400).matrix, dtype=np.float32)
    if name == "minilm" and minilm is not None:
        return np.asarray(kdcode.read(minilm, tensor=TOKEN_TABLE).matrix, dtype=np.float32)
    if name.startswith("glove") and glove is not None:
        rows = {"glove-50k": 50_000, "glove-100k": 100_000}[name]
        return np.load(glove / "vectors.npy", mmap_mode="r")[:rows].astype(np.float32)
    raise SystemExit(f"{name}: give the file or folder that it is in, --glove or --minilm")


def measure(vectors: Matrix, method: str, most: int) -> dict[str, Any]:
    """One method at its best setting that takes at most so many bytes."""
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
        "decode_rows_per_second": _rate(fitted.decode, len(vectors)),
        "peak_mb": peak,
    }


def _fit_ours(vectors: Matrix, effort: str, most: int) -> tuple[Setting, int, Fitted, Spent]:
    """What `kdcode compress --size` does; the time of planning counts."""
    table = kdcode.VectorTable(None, vectors)
    times = 4 * vectors.size / most

    def learn() -> tuple[Plan, kdcode.CodedTable]:
        plan = kdcode.plan(table, f"{times:.6f}x", options=CompressOptions.of(effort=effort))
        return plan, kdcode.compress(table, options=plan.recommended.options)

    (plan, coded), spent = _timed(learn)
    setting = {name: coded.provenance["options"][name] for name in (*PLANNED, "effort")}
    setting["predicted_error"] = round(plan.recommended.relative_error, 5)
    rows = np.arange(len(coded))
    fitted = Fitted(coded.decode(rows), coded.encode, lambda: coded.decode(rows))
    return setting, coded.sizes.embedding, fitted, spent


def _fit_peer(vectors: Matrix, peer: Peer, most: int) -> tuple[Setting, int, Fitted, Spent] | None:
    """The best of all settings, or of those that the quick look ranks first; the time is that of the best alone."""
    settings = list(peer.settings(*vectors.shape, most))
    if peer.look is not None and len(settings) > 1:
        settings = [min(settings, key=lambda one: _squared_error(vectors, peer.look, one[0]))]
    best: tuple[Setting, int, Fitted, Spent] | None = None
    for setting, size in settings:
        fitted, spent = _timed(lambda setting=setting: peer.fit(vectors, setting))
        if best is None or np.square(fitted.copy - vectors).sum() < np.square(best[2].copy - vectors).sum():
            best = (setting, size, fitted, spent)
    return best


def _squared_error(vectors: Matrix, fit: Callable[[Matrix, Setting], Fitted] | None, setting: Setting) -> float:
    return float("inf") if fit is None else float(np.square(fit(vectors, setting).copy - vectors).sum())


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


def cell(arguments: argparse.Namespace, table: str, times: int, method: str) -> dict[str, Any] | None:
    """The record of a cell: measured by a process of its own, unless the work folder has it; None without any time."""
    flags = ["--only", table, str(times), method]
    for name in ("glove", "minilm"):
        if getattr(arguments, name):
            flags += [f"--{name}", str(getattr(arguments, name))]
    kept = arguments.work / f"{table}-{times}x-{method.replace(' ', '_').replace(',', '')}.json"
    if not arguments.minutes and not kept.exists():
        return None
    record = measured_apart(__file__, flags, kept, arguments.threads, arguments.minutes)
    return {"table": table, "times": times, "method": method, "bytes": None, **record}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Error against bytes, a panel for each table."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    tables = list(dict.fromkeys(row["table"] for row in rows))
    figure, axes = plt.subplots(1, len(tables), figsize=(4.4 * len(tables), 3.8), squeeze=False)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis, table in zip(axes[0], tables, strict=True):
        for method, style in STYLES.items():
            points = [row for row in rows if (row["table"], row["method"]) == (table, method) and row["bytes"]]
            points.sort(key=lambda row: row["bytes"])
            sizes, errors = ([row[key] for row in points] for key in ("bytes", "relative_error"))
            if points:
                axis.plot([size / 1e6 for size in sizes], errors, ms=4, label=method, **style)
        axis.set(xscale="log", yscale="log", xlabel="MB in all", title=table)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(LogLocator(subs=(1, 2, 5)))
            side.set_major_formatter(plain)
            side.set_minor_formatter("")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("relative squared error")
    drawn = {method: line for axis in axes[0] for line, method in zip(*axis.get_legend_handles_labels(), strict=True)}
    shown = [method for method in STYLES if method in drawn]  # of all panels: not every method is in each
    axes[0][0].legend([drawn[method] for method in shown], shown, frameon=False, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="kdcode and its peers at equal total bytes.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy of GloVe, 100 dimensions")
    parser.add_argument("--minilm", type=Path, help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--work", type=Path, default=Path("equal_bytes-work"), help="where finished records are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="where the figure goes")
    parser.add_argument("--tables", default="glove-50k,glove-100k,minilm", help="which tables, with commas between")
    parser.add_argument("--times", default=",".join(map(str, TIMES)), help="how many times smaller")
    parser.add_argument("--methods", help="which methods, with semicolons between; all by default")
    parser.add_argument("--threads", type=int, default=2, help="of every method")
    parser.add_argument(
        "--minutes", type=float, default=45, help="to give up a method in a cell after; 0 starts nothing"
    )
    parser.add_argument("--only", nargs=3, metavar=("TABLE", "TIMES", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        table, times, method = arguments.only
        vectors = read_table(table, arguments.glove, arguments.minilm)
        print(json.dumps(measure(vectors, method, 4 * vectors.size // int(times))))
        return
    everyone = [*OURS, *(peer.name for peer in PEERS)]
    methods = arguments.methods.split(";") if arguments.methods else everyone
    cells = [
        cell(arguments, table, int(times), method)
        for table in arguments.tables.split(",")
        for times in arguments.times.split(",")
        for method in methods
    ]
    rows = [row for row in cells if row is not None]
    settings = {
        "seed": 0,
        "threads": arguments.threads,
        "minutes": arguments.minutes,
        "queries": QUERIES,
        "neighbours": NEIGHBOURS,
    }
    write_result(arguments.output, settings, rows, ("numpy", "torch", "faiss-cpu"))
    draw(rows, arguments.figure)
    for row in rows:
        if row["bytes"] is not None:
            error = f"{row['relative_error']:.4f}  {row['train_seconds']:8.1f} s"
        else:
            error = "not finished" if "unfinished_minutes" in row else "does not fit"
        print(f"{row['table']:11}{row['times']:4}x  {row['method']:14} {error}")


if __name__ == "__main__":
    main()
