"""Rows that no method has seen: what kdcode and faiss lose of them with the same codes, K=256 and D=8 or 16.

    python benchmarks/unseen_rows.py --glove FOLDER --work FOLDER

Of the first 55,000 rows of GloVe every eleventh is kept back; each method learns from the other 50,000, in a process of
its own. Codebooks and rotations are rounded to float16, for all. Then the 5,000 rows are coded, by turns with faiss's
LSQ in the same process and with the same threads; the quickest turn of each counts, since other work on the machine can
only slow them. Finished records and the learned LSQ are kept in the work folder.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from equal_bits import ROWS, UNSEEN, read_rows
from faiss_peers import set_rounded
from own_process import measured_apart
from peer_kinds import Matrix
from result_file import write_result

import kdcode

RESULTS = Path(__file__).parent / "results" / "unseen_rows.json"
BITS = 8
BEAMS = ((8, 0), (8, 4), (16, 4), (32, 4), (64, 4))
TURNS = 5
LSQ, RQ = "faiss LSQ", "faiss RQ"
PEERS = ("faiss PQ", "faiss OPQ", RQ)
LINEAR: dict[str, Any] = {"composition": "linear"}
ROTATED: dict[str, Any] = {"composition": "product", "rotation": True}
OURS: dict[str, tuple[Callable[..., kdcode.CodedTable], dict[str, Any]]] = {
    "compress, fast": (kdcode.compress, {**LINEAR, "effort": "fast"}),
    "compress": (kdcode.compress, {**LINEAR, "effort": "normal"}),
    "learn_codebook, fast": (kdcode.learn_codebook, {**LINEAR, "effort": "fast"}),
    "learn_codebook": (kdcode.learn_codebook, {**LINEAR, "effort": "normal"}),
    "compress, rotated product": (kdcode.compress, {**ROTATED, "effort": "normal"}),
    "learn_codebook, rotated product": (kdcode.learn_codebook, {**ROTATED, "effort": "normal"}),
}
METHODS = (LSQ, *PEERS, *OURS)
"""LSQ comes first: the others are timed by turns with it."""
LSQ_ROUNDS = {8: 25, 16: 4}
"""Rounds of learning of LSQ; 25 are faiss's own, which take most of an hour with 16 positions.
One is enough for other D, which tests have."""


class Way(NamedTuple):
    """A way to code rows: vectors to codes and back, and the codes of the rows that were learned from, if not that."""

    name: str
    encode: Callable[[Matrix], Any]
    decode: Callable[[Any], Matrix]
    seen_copy: Matrix | None = None


def fit(method: str, seen: Matrix, positions: int, lsq_file: Path) -> list[Way]:
    """Learn with one method; each of its ways to code rows."""
    if method in OURS:
        learn, options = OURS[method]
        coded = learn(kdcode.VectorTable(None, seen), codebook_size=2**BITS, code_length=positions, **options)
        copy = coded.decode(np.arange(len(seen)))
        beams = BEAMS if coded.spec.groups == 1 else ((1, 0),)  # single codewords need no search
        return [_own_way(coded, beam, sweeps, copy) for beam, sweeps in beams]
    if method == LSQ:
        return [_lsq(seen, positions, lsq_file)]
    return [_rq(seen, positions) if method == RQ else _product(seen, positions, rotated=method == "faiss OPQ")]


def _own_way(coded: kdcode.CodedTable, beam: int, sweeps: int, copy: Matrix) -> Way:
    return Way(
        f"beam {beam}, sweeps {sweeps}",
        lambda new: coded.codec.encode(new, beam=beam, sweeps=sweeps),
        coded.compose,
        copy,
    )


def _lsq(seen: Matrix, positions: int, file: Path) -> Way:
    import faiss

    index = faiss.IndexLocalSearchQuantizer(seen.shape[1], positions, BITS)
    index.lsq.train_iters = LSQ_ROUNDS.get(positions, 1)
    index.lsq.train(seen)
    _round(index.lsq.codebooks)
    index.is_trained = True
    file.parent.mkdir(parents=True, exist_ok=True)
    faiss.write_index(index, str(file))

    def code(new: Matrix) -> Any:  # noqa: ANN401 - through the index, which owns the quantizer and must live as long
        return index.lsq.compute_codes(new)

    return Way("its own", code, index.lsq.decode)


def _rq(seen: Matrix, positions: int) -> Way:
    import faiss

    quantizer = faiss.ResidualQuantizer(seen.shape[1], positions, BITS)
    quantizer.train(seen)
    _round(quantizer.codebooks)
    quantizer.compute_codebook_tables()
    return Way("its own", quantizer.compute_codes, quantizer.decode)


def _product(seen: Matrix, positions: int, *, rotated: bool) -> Way:
    """PQ and OPQ; faiss wants a multiple of the positions as dimension, so vectors are padded with zeros."""
    import faiss

    dim = seen.shape[1]
    wide = -(-dim // positions) * positions
    quantizer = faiss.ProductQuantizer(wide, positions, BITS)
    if not rotated:

        def turn(new: Matrix) -> Matrix:
            return np.pad(new, ((0, 0), (0, wide - dim)))

        def turn_back(new: Matrix) -> Matrix:
            return new[:, :dim]
    else:
        rotation = faiss.OPQMatrix(dim, positions, wide)
        rotation.pq = quantizer
        rotation.train(seen)
        _round(rotation.A)
        turn, turn_back = rotation.apply, rotation.reverse_transform
    quantizer.train(turn(seen))
    _round(quantizer.centroids)
    return Way(
        "its own", lambda new: quantizer.compute_codes(turn(new)), lambda codes: turn_back(quantizer.decode(codes))
    )


def _round(numbers: Any) -> None:  # noqa: ANN401 - a vector of faiss
    """Round to float16 in place."""
    import faiss

    set_rounded(numbers, faiss.vector_to_array(numbers)[None], "float16")


def measure(seen: Matrix, unseen: Matrix, method: str, positions: int, lsq_file: Path) -> list[dict[str, Any]]:
    """One method: what it loses of both tables, and the times of learning and of coding."""
    import faiss

    faiss.omp_set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    started = time.perf_counter()
    ways = fit(method, seen, positions, lsq_file)
    learned = time.perf_counter() - started
    index = faiss.read_index(str(lsq_file))
    return [
        {
            "method": method,
            "positions": positions,
            "bits": BITS * positions,
            "way": way.name,
            "seen_error": _error(seen, way.decode(way.encode(seen)) if way.seen_copy is None else way.seen_copy),
            "unseen_error": _error(unseen, way.decode(way.encode(unseen))),
            "learn_seconds": round(learned, 1),
            **_speeds(unseen, way, index.lsq.compute_codes),
        }
        for way in ways
    ]


def _speeds(unseen: Matrix, way: Way, lsq: Callable[[Matrix], Any]) -> dict[str, float]:
    """Rows per second in the quickest turn, and the share of LSQ's time."""
    seconds: dict[str, list[float]] = {"own": [], "lsq": []}
    for _ in range(TURNS):
        for name, code in (("own", way.encode), ("lsq", lsq)):
            started = time.perf_counter()
            code(unseen)
            seconds[name].append(time.perf_counter() - started)
    own, other = (min(seconds[name]) for name in ("own", "lsq"))
    return {
        "rows_per_second": round(len(unseen) / own),
        "lsq_rows_per_second": round(len(unseen) / other),
        "share_of_lsq_time": round(own / other, 4),
    }


def _error(vectors: Matrix, copy: Matrix) -> float:
    around_mean = np.square(vectors - vectors.mean(axis=0)).sum()
    return round(float(np.square(vectors - copy).sum() / around_mean), 5)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="Errors of rows that were not learned from, at the same K and D.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy of GloVe; 1,000 embedded rows if left out")
    parser.add_argument("--work", type=Path, default=Path("unseen_rows-work"), help="where finished records are kept")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--methods", default=";".join(METHODS), help="which methods, with semicolons between")
    parser.add_argument("--positions", default="8,16", help="which D, with commas between")
    parser.add_argument("--threads", type=int, default=2, help="of every method")
    parser.add_argument("--only", nargs=2, metavar=("METHOD", "D"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        method, positions = arguments.only[0], int(arguments.only[1])
        lsq_file = arguments.work / f"lsq-{positions}.index"
        print(json.dumps(measure(*read_rows(arguments.glove), method, positions, lsq_file)))
        return
    rows: list[dict[str, Any]] = []
    for positions in arguments.positions.split(","):
        for method in sorted(arguments.methods.split(";"), key=METHODS.index):
            flags = ["--only", method, positions, "--work", str(arguments.work)]
            flags += ["--glove", str(arguments.glove)] if arguments.glove else []
            kept = arguments.work / f"{method.replace(' ', '_').replace(',', '')}-{positions}.json"
            found: Any = measured_apart(__file__, flags, kept, arguments.threads)
            rows += found
            for row in found:
                print(json.dumps(row))
    settings = {"seed": 0, "threads": arguments.threads, "rows": ROWS, "unseen": UNSEEN, "bits": BITS}
    settings["lsq_rounds"] = {str(positions): rounds for positions, rounds in LSQ_ROUNDS.items()}
    write_result(arguments.output, settings, rows, ("numpy", "torch", "faiss-cpu"))


if __name__ == "__main__":
    main()
