"""Files of rows beside a checkpoint: what several ranks have learned about their own rows, a file for each rank.

The checkpoint itself holds what all rows share, and a list of these files with their digests. They have new names each
time, and the checkpoint is replaced last, so that it always names files that are whole; those that it names no longer
are removed after that.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.errors import CheckpointError, file_error
from kdcode.files import beside
from kdcode.learning.checkpoint_file import read_digested, write_digested

State = dict[str, Any]
RowArrays = dict[str, npt.NDArray[Any]]
"""(rows, …) arrays by their path in a state, such as "best.codes"."""

_TOKEN = "?" * 8
"""What a name has in the place of random digits, as a pattern."""


class RowFile(NamedTuple):
    """A file of rows: those from `first`, `rows` of them.

    Args:
        name: in the folder of the checkpoint.
        first: the number of its first row.
        rows: how many it has.
        digest: of its content, as its first line has it.
    """

    name: str
    first: int
    rows: int
    digest: str

    @classmethod
    def written(cls, checkpoint: Path, token: str, first: int, count: int, arrays: RowArrays) -> RowFile:
        """Write the arrays of `count` rows beside a checkpoint.

        Raises:
            OSError: they cannot be written.
        """
        path = beside(checkpoint, checkpoint.name, _ending(token, f"{first:012}"))
        digest = write_digested(path, {"first": first, "rows": count, "arrays": arrays})
        return cls(path.name, first, count, digest)

    def read(self, checkpoint: Path) -> RowArrays:
        """The arrays of a file beside a checkpoint.

        Raises:
            CheckpointError: it is missing, damaged, or of another time than the checkpoint.
        """
        path = checkpoint.with_name(self.name)
        try:
            content, digest = read_digested(path)
        except FileNotFoundError:
            raise CheckpointError(
                f"{checkpoint}: its rows in {path} are missing; all ranks must see the folder of the checkpoint; "
                "bring the file back, or remove the checkpoint to start afresh"
            ) from None
        except OSError as error:
            raise file_error(path, "read", error) from error
        if digest != self.digest or not isinstance(content, dict) or content.get("first") != self.first:
            raise CheckpointError(f"{path}: is of another time than {checkpoint}; remove both to start afresh")
        arrays: RowArrays = content["arrays"]
        if any(len(array) != self.rows for array in arrays.values()):
            raise CheckpointError(f"{path}: has not the {self.rows} rows that {checkpoint} says; remove both")
        return arrays


def remove_row_files(checkpoint: Path, kept: Sequence[str] = ()) -> None:
    """Remove the files of rows beside a checkpoint, but for those that it names."""
    pattern = beside(checkpoint, checkpoint.name, _ending(_TOKEN, "?" * 12))
    begin, ending = str(pattern).removesuffix(_ending(_TOKEN, "?" * 12)), _ending(_TOKEN, "?" * 12)
    for found in glob.glob(glob.escape(begin) + ending):  # noqa: PTH207 - Path.glob cannot escape
        if Path(found).name not in kept:
            with suppress(OSError):
                Path(found).unlink()


def read_rows(checkpoint: Path, files: Sequence[RowFile], first: int, end: int) -> RowArrays:
    """The arrays of the rows from `first` to before `end`, from as many files as have some of them.

    Raises:
        CheckpointError: a file cannot be used, or a row is in none.
    """
    found: dict[str, list[npt.NDArray[Any]]] = {}
    reached = first
    for file in sorted(files, key=lambda one: one.first):
        low, high = max(first - file.first, 0), min(end - file.first, file.rows)
        if low >= high:
            continue
        for path, array in file.read(checkpoint).items():
            found.setdefault(path, []).append(array[low:high].copy())
        reached = file.first + high
    if reached != end or any(sum(map(len, parts)) != end - first for parts in found.values()):
        raise CheckpointError(f"{checkpoint}: does not have all rows of this table; remove it to start afresh")
    return {path: np.concatenate(parts) for path, parts in found.items()}


def split_rows(state: State, by_row: Sequence[str]) -> tuple[State, RowArrays]:
    """A state without the arrays that have one row for each of the table's, and these by their path."""
    shared, rows = dict(state), {}
    for path in by_row:
        rows[path] = _at(state, path)
        _put(shared, path, None)
    return shared, rows


def with_rows(state: State, rows: RowArrays) -> State:
    """What `split_rows` has taken apart."""
    whole = dict(state)
    for path, array in rows.items():
        _put(whole, path, array)
    return whole


def cut_rows(state: State, by_row: Sequence[str], first: int, end: int, total: int) -> State:
    """A state of all rows of a table with those from `first` to before `end` alone.

    Raises:
        ValueError: it is of another number of rows.
    """
    rows = {path: _at(state, path) for path in by_row}
    for path, array in rows.items():
        if len(array) != total:
            raise ValueError(f"{path} has {len(array)} rows, expected {total}")
    return with_rows(state, {path: array[first:end].copy() for path, array in rows.items()})


def _ending(token: str, first: str) -> str:
    return f".rows-{token}-{first}"


def _at(state: State, path: str) -> npt.NDArray[Any]:
    value: Any = state
    for name in path.split("."):
        value = value[name]
    return value  # type: ignore[no-any-return]  # states are of any values


def _put(state: State, path: str, value: npt.NDArray[Any] | None) -> None:
    """Set a value in a copy of a state, whose inner dicts are copied on the way."""
    *folders, name = path.split(".")
    for folder in folders:
        state[folder] = state = dict(state[folder])
    state[name] = value
