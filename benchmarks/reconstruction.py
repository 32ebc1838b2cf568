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
from kdcode.options import BatchOptions

RESULTS = Path(__file__).parent / "results" / "reconstruction.json"
SMALL = {"codebook_size": 50, "code_length": 10}
GRADIENT = {"learner": "straight-through", "start": "random"}
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("random codes", {**SMALL, "learner": "random"}),
    ("product codes", {**SMALL, "composition": "product"}),
    ("product codes, rotated", {**SMALL, "composition": "product", "rotation": True}),
    ("plain Algorithm 1 gradient", {**SMALL, **GRADIENT, "curvature": 0.0, "refine_rounds": 0}),
    ("straight-through, random start", {**SMALL, **GRADIENT}),
    ("straight-through, warm start", {**SMALL, **GRADIENT, "start": "warm"}),
    ("additive, fast", {**SMALL, "effort": "fast"}),
    ("additive", SMALL),
    ("additive, best", {**SMALL, "effort": "best"}),
    ("additive, with 4 bits of length", {**SMALL, "scale_bits": 4}),
    ("additive, for cosine", {**SMALL, "loss": "cosine"}),
    ("LSTM from random codes", {**SMALL, "composition": "lstm", "start": "random"}),
    ("LSTM from additive codes", {**SMALL, "composition": "lstm", "start": "additive"}),
]
LARGE: dict[str, dict[str, Any]] = {
    "linear, all rows, 32 bits": {"codebook_size": 16, "code_length": 8, "codebook_dtype": "int8"},
    "linear, all rows, 64 bits": {"codebook_size": 256, "code_length": 8, "codebook_dtype": "int8"},
}


def compress(name: str, options: kdcode.CompressOptions, table: kdcode.VectorTable) -> dict[str, Any]:
    """One run, measured; the record has a start where the learner has one."""
    started = time.perf_counter()
    coded = kdcode.compress(table, options=options)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        file_bytes = kdcode.save(coded, Path(folder, "t.kdc"))
    used = coded.provenance["options"]
    recorded = ("codebook_size", "code_length", "composition", "start", "learner")
    return {
        "name": name,
        "rows": len(table),
        **{key: used[key] for key in recorded if key in used},
        "relative_error": round(coded.provenance["relative_error"], 4),
        "mean_cosine": round(coded.provenance["mean_cosine"], 4),
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
    parser.add_argument("--tiny", action="store_true", help="300 rows of the embedded table, 2 epochs, for tests")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.data and not arguments.tiny:
        parser.error("give --data or --tiny")
    runs = {**dict(RUNS), **LARGE}
    if arguments.only:
        options = kdcode.CompressOptions.of(**runs[arguments.only])
        rows = 100_000 if arguments.only in LARGE else 10_000
        if arguments.tiny:
            rows = 300
            if isinstance(options.learning, BatchOptions):
                options = options.changed(epochs=2, batch_size=100)
        print(json.dumps(compress(arguments.only, options, read_table(arguments.data, rows))))
        return
    records = [in_own_process(arguments, name) for name in runs]
    write_result(arguments.output, {"seed": 0, "runs": runs}, records, ("numpy", "torch"))
    for record in records:
        shown = ("relative_error", "mean_cosine", "ratio", "seconds", "peak_mb")
        print(f"{record['name']:28}" + "".join(f"{key.split('_')[-1]:>9} {record[key]:<8}" for key in shown))


if __name__ == "__main__":
    main()
