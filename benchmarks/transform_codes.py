"""Transform codes of GloVe: what unseen rows lose, and how long rows take to code and to read.

    python benchmarks/transform_codes.py --glove FOLDER

Of the first 55,000 rows every eleventh is kept back; codes are made for the other 50,000, for a size alone, and then of
the 5,000 with the same codec. Rows are read at random in a process of one thread, rotation included, and coded on as
many threads as are given.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from equal_bits import read_rows
from own_process import measured_apart
from peer_kinds import Matrix
from result_file import rounded, write_result
from turns import Contender, Plan, timed, times

import kdcode
from kdcode import _core
from kdcode.cpus import available_cpus
from kdcode.learning import encode
from kdcode.threads import using_threads

RESULTS = Path(__file__).parent / "results" / "transform_codes.json"
SIZES, EFFORTS = ("8x", "10x", "20x"), ("fast", "normal")
READ_ROWS, CODED_ROWS = 4096, 2048
"""Rows of one call."""
READING, CODING = Plan(turns=9, warm=1, calls=4), Plan(turns=5, warm=0, calls=1)


def lost(vectors: Matrix, copy: Matrix, mean: Matrix) -> float:
    """Squared error, relative to the mean vector for every row."""
    energy = np.square(vectors - mean, dtype=np.float64).sum()
    return float(np.square(vectors - copy, dtype=np.float64).sum() / energy)


def measured(size: str, effort: str, rows: Matrix, others: Matrix, threads: int) -> dict[str, Any]:
    """One row of the result."""
    started = time.perf_counter()
    coded = kdcode.compress(rows, size, effort=effort)
    seconds = time.perf_counter() - started
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    record = {
        "size": size,
        "effort": effort,
        "composition": coded.spec.composition,
        "seconds": seconds,
        "seen_error": lost(rows, coded.decode(np.arange(len(rows))), mean),
        "unseen_error": lost(others, coded.codec.compose(encode(coded.codec, others)), mean),
    }
    with tempfile.TemporaryDirectory() as folder:
        kdcode.save(coded, Path(folder) / "coded.kdc")
        record |= measured_apart(__file__, ["--read", f"{folder}/coded.kdc"], Path(folder) / "times.json", threads=1)
    return rounded(record | coding_times(coded, others, threads))


def reading_times(file: Path) -> dict[str, float]:
    """Microseconds that a row of a .kdc file takes, with the threads that this process has."""
    coded, draw = kdcode.load(file), np.random.default_rng(0)
    took = timed(
        {"read": Contender(coded.decode)},
        lambda calls: (draw.integers(0, len(coded), READ_ROWS) for _ in range(calls)),
        READING,
    )
    return times("microseconds_per_row", took["read"], 1e6 / READ_ROWS)


def coding_times(coded: kdcode.CodedTable, others: Matrix, threads: int) -> dict[str, float]:
    """Rows that are coded in a second, in the median turn."""
    draw = np.random.default_rng(0)

    def some(calls: int) -> Iterator[Any]:
        return (others[draw.integers(0, len(others), CODED_ROWS)] for _ in range(calls))

    with using_threads(threads):
        took = timed({"coded": Contender(lambda vectors: encode(coded.codec, vectors))}, some, CODING)
    return {"coded_per_second": CODED_ROWS / times("s", took["coded"], 1)["s"]}


def main() -> None:
    """Measure, print, and write everything down."""
    parser = argparse.ArgumentParser(description="Transform codes: unseen rows, and times.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy of GloVe, 100 dimensions")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--threads", type=int, default=available_cpus(), help="to code rows on")
    parser.add_argument("--sizes", default=",".join(SIZES), help="with commas between")
    parser.add_argument("--efforts", default=",".join(EFFORTS), help="with commas between")
    parser.add_argument("--read", type=Path, help="only tell how long rows of this file take")
    asked = parser.parse_args()
    if asked.read:
        print(json.dumps(reading_times(asked.read)))
        return
    rows, others = read_rows(asked.glove)
    found = []
    for effort in asked.efforts.split(","):
        for size in asked.sizes.split(","):
            found.append(measured(size, effort, rows, others, asked.threads))
            print(json.dumps(found[-1]), flush=True)
    settings = {"rows": len(rows), "unseen": len(others), "dim": rows.shape[1], "threads": asked.threads, "seed": 0}
    settings["isa"] = _core.isa()
    write_result(asked.output, settings, found, ("numpy", "torch"))


if __name__ == "__main__":
    main()
