"""kdcode and faiss with the same codes, K=256 and D=8 or 16: error and training time, and unseen vectors.

    python benchmarks/equal_bits.py --glove FOLDER --work FOLDER

Every method learns from the same 50,000 rows of GloVe with the same number of threads, in a process of its own, and
then codes 5,000 rows that it has not seen, five times, of which the median counts. Finished records are kept in the
work folder.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from own_process import measured_apart
from peer_kinds import Matrix
from peers import PEERS
from result_file import write_result

import kdcode

RESULTS = Path(__file__).parent / "results" / "equal_bits.json"
ROWS, UNSEEN, BITS = 50_000, 5_000, 8
OURS = {"kdcode, fast": "fast", "kdcode": "normal", "kdcode, best": "best"}
BEAMS = ((5, 0), (8, 0), (8, 2), (16, 2), (32, 2))
REPEATS = 5
METHODS = {8: "kdcode, fast;kdcode;faiss RQ;faiss LSQ", 16: "kdcode, fast;kdcode;faiss RQ"}
"""What is compared for each D, unless told otherwise; LSQ with 16 positions takes most of an hour."""


def measure(seen: Matrix, unseen: Matrix, method: str, positions: int) -> dict[str, Any]:
    """One method: what it loses of both tables, and the time of learning and of coding."""
    started = time.perf_counter()
    if method in OURS:
        options = {"codebook_size": 2**BITS, "code_length": positions, "codebook_dtype": "float32"}
        coded = kdcode.compress(kdcode.VectorTable(None, seen), **options, effort=OURS[method])
        seconds, copy = time.perf_counter() - started, coded.decode(np.arange(len(seen)))
        ways = {
            f"beam {beam}, sweeps {sweeps}": (
                lambda new, beam=beam, sweeps=sweeps: coded.compose(coded.codec.encode(new, beam=beam, sweeps=sweeps))
            )
            for beam, sweeps in BEAMS
        }
    else:
        peer = next(peer for peer in PEERS if peer.name == method)
        fitted = peer.fit(seen, {"positions": positions, "bits": BITS})
        seconds, copy = time.perf_counter() - started, fitted.copy
        ways = {"its own": fitted.recode}
    return {
        "method": method,
        "positions": positions,
        "relative_error": _error(seen, copy),
        "train_seconds": round(seconds, 1),
        "unseen": [_coded_anew(unseen, name, way) for name, way in ways.items()],
    }


def _coded_anew(unseen: Matrix, name: str, way: Any) -> dict[str, Any]:  # noqa: ANN401 - vectors to vectors
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        copy = way(unseen)
        rates.append(round(len(unseen) / (time.perf_counter() - started)))
    rates.sort()
    return {
        "way": name,
        "relative_error": _error(unseen, copy),
        "rows_per_second": rates[REPEATS // 2],
        "slowest_and_quickest": [rates[0], rates[-1]],
    }


def _error(vectors: Matrix, copy: Matrix) -> float:
    around_mean = np.square(vectors - vectors.mean(axis=0)).sum()
    return round(float(np.square(vectors - copy).sum() / around_mean), 5)


def read_rows(glove: Path | None) -> tuple[Matrix, Matrix]:
    """Rows to learn from and rows to keep back, both spread over the table."""
    if glove is None:
        from kdcode.data import glove_50d

        vectors = np.asarray(glove_50d().matrix[:1100], dtype=np.float32)
        return vectors[:1000], vectors[1000:]
    vectors = np.load(glove / "vectors.npy", mmap_mode="r")[: ROWS + UNSEEN].astype(np.float32)
    back = np.arange(len(vectors)) % (ROWS // UNSEEN + 1) == 0
    return vectors[~back], vectors[back]


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="kdcode and faiss at the same K and D.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy of GloVe; 1,000 embedded rows if left out")
    parser.add_argument("--work", type=Path, default=Path("equal_bits-work"), help="where finished records are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--methods", help="which methods, with semicolons between")
    parser.add_argument("--positions", default="8,16", help="which D, with commas between")
    parser.add_argument("--threads", type=int, default=2, help="of every method")
    parser.add_argument("--only", nargs=2, metavar=("METHOD", "D"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(*read_rows(arguments.glove), arguments.only[0], int(arguments.only[1]))))
        return
    rows = []
    for positions in arguments.positions.split(","):
        for method in (arguments.methods or METHODS[int(positions)]).split(";"):
            flags = ["--only", method, positions]
            flags += ["--glove", str(arguments.glove)] if arguments.glove else []
            kept = arguments.work / f"{method.replace(' ', '_').replace(',', '')}-{positions}.json"
            rows.append(measured_apart(__file__, flags, kept, arguments.threads))
            print(json.dumps(rows[-1]))
    settings = {"seed": 0, "threads": arguments.threads, "rows": ROWS, "unseen": UNSEEN, "bits": BITS}
    write_result(arguments.output, settings, rows, ("numpy", "torch", "faiss-cpu"))


if __name__ == "__main__":
    main()
