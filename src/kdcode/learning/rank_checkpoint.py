"""RankCheckpoint: the checkpoint of a run whose rows are on several ranks; another number of ranks can resume it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kdcode.errors import CheckpointError, FileError, file_error
from kdcode.learning.checkpoint import Checkpoint, holding
from kdcode.learning.checkpoint_parts import RowArrays, RowFile, State, cut_rows, read_rows, split_rows, with_rows
from kdcode.learning.ranks import Ranks
from kdcode.learning.row_share import RowShare
from kdcode.learning.run import RunCheckpoint


class RankCheckpoint:
    """What `Run` needs of a checkpoint, on every rank: rank 0 keeps the file, and each rank one of its own rows.

    All ranks must see the folder. Methods are collectives but for `with_rows`.

    Args:
        checkpoint: where, and how often; rank 0 holds it.
        share: the rows here.
    """

    def __init__(self, checkpoint: Checkpoint, share: RowShare) -> None:
        self._checkpoint, self._share, self._ranks = checkpoint, share, share.ranks

    @property
    def path(self) -> Path:
        """The file."""
        return self._checkpoint.path

    def due(self) -> bool:
        """Whether it is time to save, by the clock of rank 0."""
        return self._ranks.told(self._checkpoint.due())

    def load(self, identity: str) -> State | None:
        """The state of the run with this identity; see `Checkpoint.load`.

        Raises:
            CheckpointError: the file is of another run, is damaged, or is not there for all ranks.
        """
        with self._ranks.together():
            found = self._checkpoint.load(identity)
        steps = self._ranks.collect(None if found is None else found["step"])
        if len(set(steps)) > 1:
            raise CheckpointError(
                f"{self.path}: not all ranks see this checkpoint; all of them must see its folder, "
                "such as one of a network file system"
            )
        return found

    def save(self, identity: str, state: State | None, by_row: Sequence[str] = ()) -> None:
        """Write what all rows share, and the rows of every rank; see `Checkpoint.save`."""
        files: list[RowFile] = []
        failure: FileError | None = None
        if state is not None:
            shared, rows = split_rows(state["state"], by_row)
            state = {**state, "state": shared}
            files, failure = self._write_rows(rows)
        with self._ranks.together():
            if not self._ranks.is_first:
                return
            if failure is not None:
                self._checkpoint.failed(failure)
            else:
                self._checkpoint.save(identity, state, files=files)

    def _write_rows(self, rows: RowArrays) -> tuple[list[RowFile], FileError | None]:
        """The files of all ranks, or why there is one missing."""
        token, share = self._ranks.told(secrets.token_hex(4)), self._share
        written: RowFile | FileError
        try:
            written = RowFile.written(self.path, token, share.first, share.rows, rows)
        except OSError as error:
            written = file_error(self.path, "written", error)
        found = self._ranks.collect(written)
        failures = [one for one in found if isinstance(one, FileError)]
        return [one for one in found if isinstance(one, RowFile)], failures[0] if failures else None

    def with_rows(self, state: State, by_row: Sequence[str]) -> State:
        """The state of a stage with the rows that are here, however many ranks have written them.

        Raises:
            CheckpointError: rows are missing.
            ValueError: they are of another table.
        """
        share, files = self._share, self._checkpoint.files
        if files:
            return with_rows(state, read_rows(self.path, files, share.first, share.end))
        return cut_rows(state, by_row, share.first, share.end, share.total)


def checkpoint_for(checkpoint: Checkpoint | None, share: RowShare) -> RunCheckpoint | None:
    """The checkpoint of a run on these ranks, where it has one."""
    return checkpoint if checkpoint is None or share.ranks.is_alone else RankCheckpoint(checkpoint, share)


@contextmanager
def held_by_first(checkpoint: Checkpoint | None, ranks: Ranks) -> Iterator[None]:
    """The block in which a run has its checkpoint to itself: rank 0 holds it, and all ranks fail where it cannot."""
    with ExitStack() as stack:
        with ranks.together():
            if ranks.is_first:
                stack.enter_context(holding(checkpoint))
        yield
