"""What a plan takes, and how near its prediction comes: `compress` to a size, for tables of different shapes.

    python benchmarks/plans.py --glove FOLDER --minilm model.safetensors --work FOLDER

Every run has a process of its own. `plan_seconds` is the time from a table in memory to a setting, `learn_seconds` the
time from there to a coded table with its measured error; torch is imported before. What is measured is kept in the work
folder, so that a stopped benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from own_process import measured_apart
from result_file import write_result
from scaling import made_table

import kdcode
from kdcode.cpus import available_cpus
from kdcode.data import glove_50d
from kdcode.options import CompressOptions

RESULTS = Path(__file__).parent / "results" / "plans.json"
MINILM = "embeddings.word_embeddings.weight"
TABLES = {
    "glove-20k": (20_000, 100),
    "glove-50k": (50_000, 100),
    "glove-100k": (100_000, 100),
    "wide": (30_000, 768),
    "minilm": (30_522, 384),
    "tiny": (300, 20),
}
"""Rows and dimensions. The wide table is made of GloVe; see `made_table`."""
RUNS = [
    ("glove-20k", "20x", "fast"),
    ("glove-100k", "20x", "fast"),
    ("wide", "20x", "fast"),
    ("minilm", "20x", "fast"),
    ("glove-20k", "10x", "fast"),
    ("glove-20k", "40x", "fast"),
    ("glove-100k", "40x", "fast"),
    ("minilm", "40x", "fast"),
    ("glove-50k", "80x", "fast"),
    ("glove-20k", "20x", "normal"),
    ("glove-50k", "40x", "normal"),
    ("minilm", "40x", "normal"),
]


def table_of(name: str, glove: Path | None, minilm: Path | None) -> kdcode.VectorTable:
    """A table by its name."""
    rows, dim = TABLES[name]
    if name == "minilm" and minilm is not None:
        return kdcode.read(minilm, tensor=MINILM)
    real: np.ndarray[Any, Any] = np.load(glove / "vectors.npy", mmap_mode="r") if glove else glove_50d().matrix
    if real.shape[1] == dim:
        return kdcode.VectorTable(None, np.asarray(real[:rows], dtype=np.float32))
    return made_table(real, rows, dim)


def run(table: kdcode.VectorTable, size: str, effort: str) -> dict[str, Any]:
    """Plan and compress, and tell how long both took and what was predicted."""
    options = CompressOptions.of(effort=effort)
    kdcode.compress(table.head(50), codebook_size=2, code_length=2, effort="fast")  # everything is imported
    began = time.perf_counter()
    best = kdcode.plan(table, size, options=options).recommended
    planned = time.perf_counter()
    coded = kdcode.compress(table, options=best.options)
    learned = time.perf_counter()
    return {
        "rows": len(table),
        "dim": table.embedding_dim,
        "composition": best.options.composition,
        "codebook_size": best.options.codebook_size,
        "code_length": best.options.code_length,
        "rotation": best.options.rotation,
        "plan_seconds": round(planned - began, 2),
        "learn_seconds": round(learned - planned, 2),
        "predicted_seconds": round(best.seconds, 2),
        "predicted_error": round(best.relative_error, 4),
        "relative_error": coded.provenance["relative_error"],
        "recall_at_10": coded.provenance["recall_at_10"],
        "ratio": round(best.ratio, 2),
    }


def main() -> None:
    """Measure every run, print it and write it down."""
    parser = argparse.ArgumentParser(description="What a plan takes.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy; the embedded table where left out")
    parser.add_argument("--minilm", type=Path, help="all-MiniLM-L6-v2's model.safetensors")
    parser.add_argument("--work", type=Path, default=Path("benchmarks/work/plans"), help="where runs are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="one small table, for tests")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        name, size, effort = arguments.only
        print(json.dumps(run(table_of(name, arguments.glove, arguments.minilm), size, effort)))
        return
    given = {"--glove": arguments.glove, "--minilm": arguments.minilm}
    flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
    rows: list[dict[str, Any]] = []
    for name, size, effort in [("tiny", "10x", "fast")] if arguments.tiny else RUNS:
        kept = arguments.work / f"{name}-{size}-{effort}.json"
        only = [*flags, "--only", name, size, effort]
        record = measured_apart(__file__, only, kept, threads=available_cpus())
        rows.append({"table": name, "size": size, "effort": effort, **record})
        print(json.dumps(rows[-1]), file=sys.stderr)
    write_result(arguments.output, {"seed": 0, "cpus": available_cpus()}, rows, ("numpy", "torch"))


if __name__ == "__main__":
    main()
