"""Related methods at equal bytes on GloVe: straight-through codes, an encoder's codes, hashing, random codes.

    python experiments/related.py --data FOLDER [--work FOLDER]

FOLDER holds `vectors.npy` and `symbols.txt` (GloVe 6B, 100 dimensions); the first 10,000 rows are used.

Equal bytes: codes packed to their bits, rows rounded up to bytes, and codewords as float16 numbers, as they stand in a
file; symbols are left out for all. Methods of one K and D have the same shapes, so the same bytes. Hashing stores no
codes, and gets as many more rows of float16 numbers as fit into the bytes of the codes. The encoder's network is not
counted: once the codes are there, the table does not need it.

The hashing trick gives every word one row of a shared table by a hash of the word, or the sum of several rows; the rows
are fitted by least squares, which for one hash is the mean of the words that share a row. Both are fixed random codes
that need not be stored: D = 1 with K as the number of rows, or D hashes into one codebook for all positions.

Algorithm 1 is the paper's, with nothing added; `straight-through` is what the library makes of it, and has a row
without its second-order term and refinement, too.

The encoder (Shu and Nakayama, 2017) is learned with refine_rounds=0, which is the published method, and with the
library's refinement at the end. Its temperature is 0.5, better here than the 1 of the publication. For vectors that no
method saw, every tenth row is held back, and codes come from the network or from the beam search of
`CodedTable.encode`, which works under any codebook. Seconds are processor time: of learning, and for held-back rows of
encoding them. Neighbours are looked for among the rows that are measured, so their overlap compares only between rows
of the same `vectors`. Finished rows are kept in the work folder and not run again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from experiment import Experiment, kept
from figure import COLORS, panels
from matplotlib.axes import Axes
from reconstruction import read_table
from scipy import sparse

import kdcode
from kdcode.learning import learn_encoder
from kdcode.options import BatchOptions

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

ROWS = 10_000
SHAPES = ((16, 32), (50, 10))
"""K and D: the usual ones of Shu and Nakayama, and of the paper."""

ENCODER = {"learner": "encoder", "temperature": 0.5}
METHODS: dict[str, dict[str, Any]] = {
    "random codes": {"learner": "random"},
    "Algorithm 1": {"learner": "algorithm-1"},
    "straight-through, first order, not refined": {"curvature": 0.0, "refine_rounds": 0},
    "straight-through": {},
    "straight-through, warm start": {"start": "warm"},
    "encoder": {**ENCODER, "refine_rounds": 0},
    "encoder with refinement": ENCODER,
}
HASHES = (1, 2, 4)
NUMBER_BYTES = 2
NEIGHBOURS, QUERIES = 10, 1000
HELD_BACK = 10
"""Every so manieth row is held back."""

TINY: dict[str, Any] = {"rows": 300, "shapes": ((8, 6),), "epochs": 3, "batch_size": 100}
SHOWN = {
    "random codes": COLORS[5],
    "1 hash": COLORS[3],
    "Algorithm 1": COLORS[2],
    "straight-through": COLORS[0],
    "encoder": COLORS[1],
    "encoder with refinement": COLORS[4],
}
"""Methods of the figure and their colours."""


class Comparison:
    """All methods on one table, each measured once and kept.

    Args:
        table: what is compressed.
        folder: for finished rows.
        seed: of everything.
        batches: options over those of all methods that learn in batches, which make a trial shorter.
        say: tells of progress.
    """

    def __init__(
        self,
        table: kdcode.VectorTable,
        folder: Path,
        *,
        seed: int,
        batches: dict[str, int],
        say: Callable[[str], None],
    ) -> None:
        self.table, self.folder, self.seed, self.batches, self.say = table, folder, seed, batches, say

    def rows(self, shape: tuple[int, int]) -> list[dict[str, Any]]:
        """One record for each method at a K and D."""
        records = [self._kept(shape, name, lambda name=name: self.coded(shape, name)) for name in METHODS]
        size = records[0]["bytes"]
        records += [
            self._kept(shape, hash_name(count), lambda count=count: self.hashed(size, count)) for count in HASHES
        ]
        for name in ("encoder", "straight-through"):
            found = self._kept(shape, f"unseen {name}", lambda name=name: {"rows": self.unseen(shape, name)})
            records += found["rows"]
        return [{"codebook_size": shape[0], "code_length": shape[1], **record} for record in records]

    def coded(self, shape: tuple[int, int], name: str) -> dict[str, Any]:
        """A method of the library."""
        started = time.process_time()
        coded = kdcode.compress(self.table, options=self._options(shape, name))
        seconds = time.process_time() - started
        return self._record(name, "table", self.table, coded.to_table(), (coded.sizes.embedding, seconds))

    def hashed(self, size: int, count: int) -> dict[str, Any]:
        """Sums of `count` rows of a table that takes at most `size` bytes."""
        started = time.process_time()
        table_rows = size // (NUMBER_BYTES * self.table.embedding_dim)
        buckets = hash_symbols(self.table.symbols, table_rows, count, self.seed)
        shared = fit_hashed(self.table.matrix, buckets, table_rows).astype(np.float16)
        copy = kdcode.VectorTable(self.table.symbols, shared.astype(np.float32)[buckets].sum(axis=1))
        seconds = time.process_time() - started
        return self._record(hash_name(count), "table", self.table, copy, (shared.nbytes, seconds))

    def unseen(self, shape: tuple[int, int], name: str) -> list[dict[str, Any]]:
        """Codes of rows that were held back while a method learned: from its network, and by beam search."""
        back = np.arange(len(self.table)) % HELD_BACK == HELD_BACK - 1
        seen, unseen = (kdcode.VectorTable(None, self.table.matrix[part]) for part in (~back, back))
        options = self._options(shape, name)
        if name == "encoder":
            learned = learn_encoder(seen, options=options)
            coded = learned.coded
            ways = {"network, rows it learned from": (seen, learned.encode), "network": (unseen, learned.encode)}
        else:
            coded, ways = kdcode.compress(seen, options=options), {}
        ways["beam search"] = (unseen, coded.encode)
        records = []
        for way, (rows, encode) in ways.items():
            started = time.process_time()
            codes = encode(rows.matrix)
            cost = (coded.sizes.embedding, time.process_time() - started)
            copy = kdcode.VectorTable(None, coded.compose(codes))
            records.append(self._record(f"{name}: {way}", "seen" if rows is seen else "unseen", rows, copy, cost))
        return records

    def _options(self, shape: tuple[int, int], name: str) -> kdcode.CompressOptions:
        learner = {"learner": "straight-through", **METHODS[name]}
        options = kdcode.CompressOptions.of(codebook_size=shape[0], code_length=shape[1], seed=self.seed, **learner)
        return options.changed(**self.batches) if isinstance(options.learning, BatchOptions) else options

    def _record(
        self, name: str, vectors: str, true: kdcode.VectorTable, copy: kdcode.VectorTable, cost: tuple[int, float]
    ) -> dict[str, Any]:
        """What a copy is judged by; its cost is bytes and seconds."""
        lost = kdcode.evaluate(true, copy)
        draw = np.random.default_rng(self.seed)
        queries = draw.permutation(len(true))[:QUERIES]
        return {
            "method": name,
            "vectors": vectors,
            "bytes": cost[0],
            "relative_error": round(lost.relative_error, 4),
            "mean_cosine": round(lost.mean_cosine, 4),
            "neighbour_overlap": round(neighbour_overlap(true.matrix, copy.matrix, queries, NEIGHBOURS), 4),
            "seconds": round(cost[1], 3),
        }

    def _kept(self, shape: tuple[int, int], name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        path = self.folder / f"{shape[0]}x{shape[1]}-{name.replace(' ', '-').replace(',', '')}.json"
        record = kept(path, make)
        self.say(f"K={shape[0]}, D={shape[1]}: {record}")
        return record


def hash_name(count: int) -> str:
    """What the hashing trick with some hashes is called."""
    return "1 hash" if count == 1 else f"{count} hashes, summed"


def hash_symbols(symbols: Sequence[str], table_rows: int, count: int, seed: int) -> Ints:
    """(N, count) rows of a shared table, each by a hash of its own."""
    keys = [f"{seed}/{number}".encode() for number in range(count)]
    digests = [hashlib.blake2b(symbol.encode(), digest_size=8, key=key).digest() for symbol in symbols for key in keys]
    numbers = np.frombuffer(b"".join(digests), dtype="<u8") % table_rows
    return numbers.astype(np.int64).reshape(len(symbols), count)


def fit_hashed(vectors: Floats, buckets: Ints, table_rows: int) -> npt.NDArray[np.float64]:
    """(M, d): shared rows whose sums at (N, count) buckets are nearest to (N, d) vectors, by the normal equations."""
    count, times = len(vectors), buckets.shape[1]
    places = (np.repeat(np.arange(count), times), buckets.ravel())
    hits = sparse.csr_array((np.ones(buckets.size), places), shape=(count, table_rows))
    # The little that is added leaves rows without words at zero, and is lost in float16 elsewhere.
    gram = (hits.T @ hits).toarray() + 1e-6 * np.eye(table_rows)
    return np.linalg.solve(gram, hits.T @ vectors.astype(np.float64))


def neighbour_overlap(true: Floats, copy: Floats, queries: Ints, count: int) -> float:
    """Mean share of a row's `count` nearest rows by cosine that are its nearest in the copy too."""
    found = [_nearest(np.asarray(rows, dtype=np.float32), queries, count) for rows in (true, copy)]
    return float(np.mean([len(np.intersect1d(one, other)) / count for one, other in zip(*found, strict=True)]))


def _nearest(rows: Floats, queries: Ints, count: int) -> Ints:
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = unit[queries] @ unit.T
    cosines[np.arange(len(queries)), queries] = -np.inf  # a row is no neighbour of itself
    # Stable, so that of rows that are equally near the first count: hashed words may have equal vectors.
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]


def draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Errors of all methods at equal bytes, and of rows that were held back."""
    with panels(path, 2, height=3.6) as (left, right):
        _bars(left, [row for row in rows if row["vectors"] == "table"], SHOWN)
        left.set(ylabel="relative squared error", title="at equal bytes", ylim=(0, 1.35))
        left.legend(ncols=2, fontsize=8, loc="upper center")
        ways = {
            "encoder: network, rows it learned from": "#f0b8c0",
            "encoder: network": COLORS[1],
            "encoder: beam search": COLORS[4],
            "straight-through: beam search": COLORS[0],
        }
        _bars(right, rows, ways)
        right.set(title="vectors that were held back", ylim=(0, 0.62))
        right.legend(fontsize=8, loc="upper left")


def _bars(axis: Axes, rows: list[dict[str, Any]], colors: dict[str, str]) -> None:
    """One group of bars per K and D, one bar per method."""
    shapes = list(dict.fromkeys((row["codebook_size"], row["code_length"]) for row in rows))
    width = 0.8 / len(colors)
    for place, (name, color) in enumerate(colors.items()):
        errors = [row["relative_error"] for row in rows if row["method"] == name]
        middle = np.arange(len(shapes)) + (place - (len(colors) - 1) / 2) * width
        bars = axis.bar(middle, errors, 0.9 * width, color=color, label=name)
        axis.bar_label(bars, fmt="%.2f", fontsize=7, padding=1)
    sizes = [
        max(row["bytes"] for row in rows if (row["codebook_size"], row["code_length"]) == shape) for shape in shapes
    ]
    labels = [
        f"K={size}, D={length}\n{total / 1000:.0f} kB" for (size, length), total in zip(shapes, sizes, strict=True)
    ]
    axis.set_xticks(np.arange(len(shapes)), labels)
    axis.grid(visible=False, axis="x")


def main() -> None:
    """Measure every method, then write, draw and print what came of it."""
    experiment = Experiment(
        __file__, __doc__, data="folder with vectors.npy and symbols.txt of GloVe 100d", resumes=True
    )
    arguments = experiment.read_arguments()
    torch.set_num_threads(1)  # one processor's time is what is compared
    batches: dict[str, int] = {}
    shapes, rows = SHAPES, ROWS
    if arguments.tiny:
        batches = {name: TINY[name] for name in ("epochs", "batch_size")}
        shapes, rows = TINY["shapes"], TINY["rows"]
    table = read_table(None if arguments.tiny else arguments.data, rows)
    # What torch loads at its first update counts for no method.
    kdcode.compress(table.head(50), learner="straight-through", epochs=1)
    folder = experiment.work / f"related-seed{arguments.seed}{'-tiny' if arguments.tiny else ''}"
    comparison = Comparison(table, folder, seed=arguments.seed, batches=batches, say=experiment.say)
    records = [record for shape in shapes for record in comparison.rows(shape)]
    settings = {
        "num_embeddings": len(table),
        "embedding_dim": table.embedding_dim,
        "methods": METHODS,
        "held_back": HELD_BACK,
        "neighbours": NEIGHBOURS,
        "queries": min(QUERIES, len(table)),
        "bytes": "codes and codewords, or hashed rows; numbers as float16, symbols left out",
        "full_table_bytes": 4 * len(table) * table.embedding_dim,
    }
    experiment.write(settings, records, packages=("numpy", "scipy", "torch"))
    draw(experiment.figure_path(), records)
    for record in records:
        shape = f"K={record['codebook_size']} D={record['code_length']}"
        numbers = "  ".join(f"{record[name]:.3f}" for name in ("relative_error", "mean_cosine", "neighbour_overlap"))
        where = f"{record['method']} ({record['vectors']})"
        print(f"{shape:<10} {where:<50} {record['bytes']:>8,} B  {numbers}  {record['seconds']:8.2f} s")


if __name__ == "__main__":
    main()
