"""Time and peak memory of learning against the number of rows, K, D and the dimension.

    python benchmarks/scaling.py --glove FOLDER --work FOLDER

Large tables are made: each row is the mean of two real rows drawn at random, plus noise of a tenth of the table's
spread; more dimensions are real ones side by side, of other rows. One setting varies at a time. Every point has a
process of its own; finished ones are kept in the work folder. Memory is that of the whole process, torch and the table
included.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from own_process import measured_apart
from result_file import write_result

import kdcode

RESULTS = Path(__file__).parent / "results" / "scaling.json"
BASE = {"rows": 100_000, "codebook_size": 256, "code_length": 8, "dim": 100}
VARIED: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "codebook_size": (16, 64, 256, 1024),
    "code_length": (4, 8, 16, 32),
    "dim": (50, 100, 200, 400),
}
TINY = {"rows": 500, "codebook_size": 16, "code_length": 4, "dim": 20}
NOISE = 0.1


def made_table(real: np.ndarray[Any, Any], rows: int, dim: int) -> kdcode.VectorTable:
    """A table of any size out of real rows."""
    draw = np.random.default_rng(0)
    vectors = np.empty((rows, dim), dtype=np.float32)
    spread = float(real.astype(np.float32).std())
    for first in range(0, dim, real.shape[1]):
        width = min(real.shape[1], dim - first)
        for start in range(0, rows, 100_000):
            count = min(100_000, rows - start)
            pairs = real[draw.integers(0, len(real), size=(count, 2)), :width].astype(np.float32)
            noise = draw.normal(0, NOISE * spread, size=(count, width))
            vectors[start : start + count, first : first + width] = pairs.mean(axis=1) + noise
    return kdcode.VectorTable(None, vectors)


def measure(real: np.ndarray[Any, Any], point: dict[str, int], effort: str) -> dict[str, Any]:
    """One run."""
    table = made_table(real, point["rows"], point["dim"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    options = {name: point[name] for name in ("codebook_size", "code_length")}
    coded = kdcode.compress(table, **options, codebook_dtype="int8", effort=effort)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        **point,
        "effort": effort,
        "seconds": round(seconds, 1),
        "table_mb": round(table.matrix.nbytes / 2**20, 1),
        "before_mb": round(before / 2**20, 1),
        "peak_mb": round(peak / 2**20, 1),
        "peak_over_table": round(peak / table.matrix.nbytes, 2),
        "relative_error": coded.provenance["relative_error"],
    }


def points(base: dict[str, int], varied: dict[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """The base with one setting changed at a time, each once."""
    found = [{**base, name: value} for name, values in varied.items() for value in values]
    return [point for place, point in enumerate(found) if point not in found[:place]]


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="Time and memory of learning.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy; the embedded table where left out")
    parser.add_argument("--work", type=Path, default=Path("scaling-work"), help="where finished points are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--effort", default="fast", help="of every run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="one small point, for tests")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        from kdcode.data import glove_50d

        real = np.load(arguments.glove / "vectors.npy", mmap_mode="r") if arguments.glove else glove_50d().matrix
        print(json.dumps(measure(real, json.loads(arguments.only), arguments.effort)))
        return
    rows = []
    for point in [TINY] if arguments.tiny else points(BASE, VARIED):
        flags = ["--only", json.dumps(point), "--effort", arguments.effort]
        flags += ["--glove", str(arguments.glove)] if arguments.glove else []
        kept = arguments.work / f"{'-'.join(map(str, point.values()))}-{arguments.effort}.json"
        rows.append(measured_apart(__file__, flags, kept, arguments.threads))
        print(json.dumps(rows[-1]))
    settings = {"seed": 0, "threads": arguments.threads, "effort": arguments.effort, "noise": NOISE, "base": BASE}
    write_result(arguments.output, settings, rows, ("numpy", "torch"))


if __name__ == "__main__":
    main()
