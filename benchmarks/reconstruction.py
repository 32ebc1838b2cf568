"""What kdcode's learners reach on GloVe: error, time and bytes, side by side in one run.

    python benchmarks/reconstruction.py --data FOLDER

FOLDER holds `vectors.npy` and `symbols.txt` (GloVe 6B, 100 dimensions). The first 10,000 rows are compressed with
K=50, D=10 by every learner, and all rows (at most 100,000) with short codes and int8 codewords. Each run has a process
of its own, so that its peak memory is its own too. Writes benchmarks/results/reconstruction.json and prints a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from result_file import write_result

import kdcode

RESULTS = Path(__file__).parent / "results" / "reconstruction.json"
SMALL = {"codebook_size": 50, "code_length": 10}
GRADIENT = {"learner": "straight-through", "start": "random"}
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("random codes", {**SMALL, "learner": "random"}),
    ("product codes", {**SMALL, "composition": "product"}),
    ("product codes, turned", {**SMALL, "composition": "product", "rotation": True}),
    ("plain Algorithm 1 gradient", {**SMALL, **GRADIENT, "curvature": 0.0, "settle": 0}),
    ("straight-through, random start", {**SMALL, **GRADIENT}),
    ("straight-through, warm start", {**SMALL, **GRADIENT, "start": "warm"}),
    ("additive, fast", {**SMALL, "effort": "fast"}),
    ("additive", SMALL),
    ("additive, best", {**SMALL, "effort": "best"}),
    ("additive, with 4 bits of length", {**SMALL, "scale_bits": 4}),
    ("additive, for cosine", {**SMALL, "loss": "cosine"}),
    ("straight-through from additive, for cosine", {**SMALL, **GRADIENT, "start": "additive", "loss": "cosine"}),
    ("LSTM from the start", {**SMALL, **GRADIENT, "composition": "lstm", "lstm_from": "start"}),
    ("LSTM from additive codes", {**SMALL, "composition": "lstm"}),
]
LARGE: dict[str, dict[str, Any]] = {
    "linear, all rows, 32 bits": {"codebook_size": 16, "code_length": 8, "numbers": "int8"},
    "linear, all rows, 64 bits": {"codebook_size": 256, "code_length": 8, "numbers": "int8"},
}


def compress(name: str, options: dict[str, Any], table: kdcode.VectorTable) -> dict[str, Any]:
    """One run, measured."""
    started = time.perf_counter()
    coded = kdcode.compress(table, **options)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        file_bytes = kdcode.save(coded, Path(folder, "t.kdc"))
    lost = kdcode.evaluate(table, coded)
    return {
        "name": name,
        "rows": len(table),
        **{key: coded.provenance["options"][key] for key in ("codebook_size", "code_length", "composition", "start")},
        "learner": coded.provenance["learner"],
        "relative_error": round(lost.relative_error, 4),
        "mean_cosine": round(lost.mean_cosine, 4),
        "seconds": round(seconds, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "embedding_bytes": coded.sizes.embedding,
        "file_bytes": file_bytes,
        "ratio": round(coded.sizes.ratio(len(table), table.embedding_dim), 1),
        "file_ratio": round(coded.sizes.file_ratio(len(table), table.embedding_dim, file_bytes), 1),
    }


def read_table(data: Path | None, rows: int) -> kdcode.VectorTable:
    """The first rows of a folder, or of the embedded table."""
    if data is None:
        from kdcode.data import glove_50d

        return glove_50d().head(rows)
    vectors = np.load(data / "vectors.npy", mmap_mode="r")[:rows]
    symbols = (data / "symbols.txt").read_text(encoding="utf-8").split("\n")[: len(vectors)]
    return kdcode.VectorTable(symbols, vectors)


def in_own_process(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Run this script for one row of the table."""
    command = [sys.executable, __file__, "--only", name, *(["--tiny"] if arguments.tiny else [])]
    if arguments.data:
        command += ["--data", str(arguments.data)]
    print(f"{name} …", file=sys.stderr)
    record: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return record


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="What the learners reach on GloVe.")
    parser.add_argument("--data", type=Path, help="folder with vectors.npy and symbols.txt")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="300 rows of the embedded table and 2 epochs, for tests")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.data and not arguments.tiny:
        parser.error("give --data or --tiny")
    runs = {**dict(RUNS), **LARGE}
    if arguments.only:
        few = {"epochs": 2, "batch_size": 100} if arguments.tiny else {}
        rows = 300 if arguments.tiny else 100_000 if arguments.only in LARGE else 10_000
        options = {**runs[arguments.only], **few}
        print(json.dumps(compress(arguments.only, options, read_table(arguments.data, rows))))
        return
    records = [in_own_process(arguments, name) for name in runs]
    write_result(arguments.output, {"seed": 0, "runs": runs}, records, ("numpy", "torch"))
    for record in records:
        shown = ("relative_error", "mean_cosine", "ratio", "seconds", "peak_mb")
        print(f"{record['name']:28}" + "".join(f"{key.split('_')[-1]:>9} {record[key]:<8}" for key in shown))


if __name__ == "__main__":
    main()
