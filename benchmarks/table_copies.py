"""Smaller copies of a model's table: kdcode at several sizes, rows of small integers, and kdcode in as many bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from peer_kinds import Matrix
from peers import ROW_PEERS
from torch import Tensor

import kdcode
from kdcode.evaluation import compare_tables
from kdcode.learning.model_calibration import compress_for_states
from kdcode.options import CompressOptions

KDCODE = "kdcode"
SETTING = ("composition", "codebook_size", "code_length", "groups", "rotation", "codebook_dtype")


class Wanted(NamedTuple):
    """A copy to make.

    Args:
        method: kdcode, or the name of a peer.
        size: for kdcode, like 20x.
        label: the size as a table calls it: 20x, or "as int8 rows" for the size that those have.
        weighting: the weights of its rows by name; "none" counts every row alike.
        is_calibrated: whether the error of logits counts; see `compress_for_states`.
        has_codewords: whether it must have codewords, to be trained.
    """

    method: str
    size: str
    label: str
    weighting: str = "none"
    is_calibrated: bool = False
    has_codewords: bool = False

    @property
    def stem(self) -> str:
        """A name for files."""
        also = {"calibrated": self.is_calibrated, "codewords": self.has_codewords}
        words = [self.method, self.label, self.weighting, *(word for word in also if also[word])]
        return " ".join(words).replace(" ", "_")


class TableCopy(NamedTuple):
    """A copy.

    Args:
        record: method, size and bytes, and what is lost.
        rows: (N, d) the table as it comes back.
        coded: the codes, where it is kdcode's.
    """

    record: dict[str, Any]
    rows: Matrix
    coded: kdcode.CodedTable | None


def wanted(shape: tuple[int, int], times: Sequence[int]) -> Iterator[Wanted]:
    """What to compare: kdcode at each size, peers, and kdcode in the bytes of each peer."""
    for each in times:
        yield Wanted(KDCODE, f"{each}x", f"{each}x")
    full = 4 * shape[0] * shape[1]
    sizes = {peer.name: next(peer.settings(*shape, full))[1] for peer in ROW_PEERS}
    for name in sizes:
        yield Wanted(name, "", "its own")
    for name, size in sizes.items():
        yield Wanted(KDCODE, f"{math.ceil(1e6 * full / size) / 1e6:f}x", f"as {name}")  # no byte more


class CopiedTable:
    """Makes copies of one table, and keeps kdcode's in a folder.

    Args:
        matrix: (N, d) the table.
        work: the folder, which then holds copies of this table alone.
        weights: (N,) how much each row counts, by the name of the weighting.
        root: (d, d) of the states' second moment, for copies that are calibrated.
        effort: of kdcode.
    """

    def __init__(
        self,
        matrix: Matrix,
        work: Path,
        weights: dict[str, np.ndarray[Any, Any]] | None = None,
        root: Tensor | None = None,
        effort: str = "fast",
    ) -> None:
        self.matrix, self.work, self.effort = np.asarray(matrix, dtype=np.float32), work, effort
        self.weights, self.root = weights or {}, root
        self.table = kdcode.VectorTable(None, self.matrix)

    def make(self, one: Wanted) -> TableCopy:
        """The copy that is asked for; kdcode's is learned unless the folder has it."""
        names = {"method": one.method, "size": one.label, "weighting": one.weighting}
        record = {**names, "is_calibrated": one.is_calibrated}
        full = 4 * self.matrix.size
        if one.method == KDCODE:
            coded = self._coded(one)
            rows, used = coded.decode(np.arange(len(coded))), coded.provenance["options"]
            setting = {key: used[key] for key in SETTING if used.get(key) is not None}
            size = coded.sizes.embedding
        else:
            coded, peer = None, next(peer for peer in ROW_PEERS if peer.name == one.method)
            setting, size = next(peer.settings(*self.matrix.shape, full))
            rows = peer.fit(self.matrix, setting).copy
        lost = compare_tables(self.table, kdcode.VectorTable(None, rows)).as_dict()
        kept = {key: lost[key] for key in ("relative_error", "mean_cosine")}
        return TableCopy({**record, "bytes": size, "ratio": full / size, **kept, "setting": setting}, rows, coded)

    def _coded(self, one: Wanted) -> kdcode.CodedTable:
        path = self.work / f"{one.stem}.kdc"
        if not path.exists():
            self.work.mkdir(parents=True, exist_ok=True)
            weights = None if one.weighting == "none" else self.weights[one.weighting]
            table, options = (
                kdcode.as_table(self.matrix, weights=weights),
                CompressOptions().changed(effort=self.effort, codewords=one.has_codewords),
            )
            how = {"checkpoint": f"{path}.checkpoint"}
            if one.is_calibrated and self.root is not None:
                coded = compress_for_states(table, self.root, options, {"size": one.size}, how)
            else:
                coded = kdcode.compress(table, one.size, options=options, **how)
            kdcode.save(coded, path)
            Path(f"{path}.checkpoint").unlink(missing_ok=True)
        return kdcode.load(path)
