"""What a method beside kdcode is, and how it keeps the numbers that all rows share: codebooks, bases, rotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Setting = dict[str, Any]

FORMATS = {"float32": 4, "float16": 2, "int8": 1}
"""Bytes of a number, the most accurate first; int8 has a float16 scale for each group of numbers besides."""


class Fitted(NamedTuple):
    """A method that has seen the table.

    Args:
        copy: (N, d) the table as it comes back.
        encode: vectors to codes, or None for methods that have none.
        decode: the same codes, all N of them, to vectors; None where codes are counted only, not made.
        recode: vectors that need not be in the table to what comes back of them, or None.
        setting: what learning chose itself, where the setting left it open.
        size: bytes in all, where they follow from that.
    """

    copy: Matrix
    encode: Callable[[Matrix], Any] | None
    decode: Callable[[], Matrix] | None
    recode: Callable[[Matrix], Matrix] | None = None
    setting: Setting | None = None
    size: int | None = None


@dataclass(frozen=True)
class Peer:
    """A method.

    Args:
        name: as the result calls it.
        settings: those that keep to a number of bytes, of a table of N x d, with the most bytes that they take.
        fit: learns with a setting.
        look: a quick method that ranks the settings of a slow one on some of the rows, so that only the first are
            learned in full; None where all settings are learned, and the best is taken.
        second_look: a method nearer to the slow one, which ranks the first few again; None where one look is enough.
        learned: how many of the first are learned in full.
    """

    name: str
    settings: Callable[[int, int, int], Iterator[tuple[Setting, int]]] = field(repr=False)
    fit: Callable[[Matrix, Setting], Fitted] = field(repr=False)
    look: Callable[[Matrix, Setting], Fitted] | None = field(repr=False, default=None)
    second_look: Callable[[Matrix, Setting], Fitted] | None = field(repr=False, default=None)
    learned: int = 1


def number_bytes(kept_as: str, groups: int, width: int) -> int:
    """Bytes of groups of numbers, with the scales of the groups."""
    return groups * (width * FORMATS[kept_as] + 2 * (kept_as == "int8"))


def rounded(groups: Matrix, kept_as: str) -> Matrix:
    """(groups, width) numbers as they come back: int8 as integers up to 127 times the float16 scale of their group."""
    if kept_as == "float32":
        return groups
    if kept_as == "float16":
        return groups.astype(np.float16).astype(np.float32)
    scales = (np.abs(groups).max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    scales[scales == 0] = 1
    return np.asarray(np.clip(np.rint(groups / scales), -127, 127) * scales, dtype=np.float32)


def packed_bytes(rows: int, positions: int, bits: int) -> int:
    """Bytes of codes whose rows begin at whole bytes."""
    return rows * -(-positions * bits // 8)


def principal(vectors: Matrix, kept: int, kept_as: str) -> tuple[Matrix, Matrix]:
    """(d,) the mean as float16 keeps it, and the (kept, d) strongest directions around it, rounded."""
    mean = vectors.mean(axis=0).astype(np.float16).astype(np.float32)
    centred = vectors - mean
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :kept].T
    return mean, rounded(np.ascontiguousarray(directions), kept_as)
