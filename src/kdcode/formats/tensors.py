"""Which of the arrays in a file is the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kdcode.errors import FormatError

_LISTED = 20


def choose(path: Path, shapes: Mapping[str, tuple[int, ...]], wanted: str | None) -> str:
    """The name of the matrix to read: the one that was asked for, or the only one there is.

    Args:
        path: the file, for messages.
        shapes: the shape of every array of real numbers in the file, by name.
        wanted: the name that was asked for.

    Raises:
        FormatError: no such array, or several to choose from; the message lists them.
    """
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    names = sorted(matrices, key=lambda name: -matrices[name][0] * matrices[name][1])  # tables are large: those first
    listed = ", ".join(f"{name} {matrices[name][0]} x {matrices[name][1]}" for name in names[:_LISTED])
    listed += f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    if wanted is not None:
        if wanted in matrices:
            return wanted
        found = f"it has shape {shapes[wanted]}" if wanted in shapes else "there is none of that name"
        raise FormatError(
            f"{path}: expected {wanted!r} to be a matrix of floats, {found}; matrices: {listed or 'none'}"
        )
    if not matrices:
        raise FormatError(f"{path}: expected a matrix of floats, found none")
    if len(matrices) > 1:
        raise FormatError(f"{path}: holds {len(matrices)} matrices, name one with tensor=: {listed}")
    return names[0]
