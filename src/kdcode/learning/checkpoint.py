"""A file that a stopped run resumes from."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from kdcode.errors import CheckpointError, CheckpointInUseError, FileError, file_error
from kdcode.file_locks import locked
from kdcode.files import replaceable
from kdcode.learning.checkpoint_file import FILES, Content, read_checkpoint, write_checkpoint
from kdcode.learning.checkpoint_parts import RowFile, read_rows, remove_row_files, with_rows


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written during a run, which goes on."""


class Checkpoint:
    """Where and how often a run saves itself.

    A run that finds its own checkpoint resumes from it and ends as if it had never stopped. The file is written when a
    run begins, so that a second run with the same path and another table or other options is refused and cannot
    overwrite it. Two runs cannot use it at the same time. A file that is not exactly what was written is refused. Call
    `remove` when the result is safe.

    Where it cannot be written, a run does not begin. Where that happens later, as when the disk is full, the run warns
    and goes on: the last one that was written stays, and the next is tried in its turn.

    Args:
        path: the file.
        every_seconds: how often it is written; 0 writes it after every update.
    """

    def __init__(self, path: str | Path, every_seconds: float = 30.0) -> None:
        self.path = Path(path)
        self.every_seconds = every_seconds
        self.resumed_step = 0
        self.files: list[RowFile] = []
        self._last = time.monotonic()
        self._plan: dict[str, Any] | None = None
        self._holder: int | None = None
        self._is_there = self._has_warned = False

    @contextmanager
    def held(self) -> Iterator[Checkpoint]:
        """Keep the file for the run in this block, which is given the checkpoint; a thread may do so twice over.

        Raises:
            CheckpointInUseError: another run uses it.
            FileError: it cannot be written where it should be.
        """
        thread = threading.get_ident()
        if self._holder == thread:
            yield self
            return
        with ExitStack() as stack:
            try:
                replaceable(self.path)
                stack.enter_context(locked(self.path))
            except BlockingIOError as error:
                who = str(error.strerror)
                raise CheckpointInUseError(
                    f"{self.path}: another run uses this checkpoint: {who}; "
                    "wait until it ends, or give this run a checkpoint of its own",
                    who,
                ) from error
            except OSError as error:
                raise file_error(self.path, "written", error) from error
            self._holder, self._is_there, self._has_warned = thread, False, False
            try:
                yield self
            finally:
                self._holder = None

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every_seconds

    def save(
        self,
        identity: str,
        state: dict[str, Any] | None,
        by_row: Sequence[str] = (),
        *,
        files: Sequence[RowFile] = (),
    ) -> None:
        """Write the state of a run, None where it has only begun; the old file is there until the new one is whole.

        Args:
            identity: of the run.
            state: what `load` gives back.
            by_row: paths of tensors with a row for each of the table's; here they are kept with all others.
            files: where other files hold rows of the state: these, and no others, are kept beside this one.

        Raises:
            FileError: it cannot be written, and there is none from before.
        """
        content: Content = {"identity": identity, "state": state, "plan": self._plan}
        if files:
            content[FILES] = [list(file) for file in files]
        if self._write(content):
            remove_row_files(self.path, [file.name for file in files])

    def load(self, identity: str) -> dict[str, Any] | None:
        """The state of the run with this identity; None where there is no file, or nothing was learned yet.

        Raises:
            CheckpointError: the file is of another run, is no checkpoint, or is damaged.
        """
        saved = self._read()
        if saved is None or saved["identity"] is None:
            return None
        if saved["identity"] != identity:
            raise CheckpointError(
                f"{self.path}: belongs to a run with another table or other options; "
                "repeat that run, or remove the file to start afresh"
            )
        self._plan = saved["plan"]
        self.files = [RowFile(*file) for file in saved.get(FILES, [])]
        state: dict[str, Any] | None = saved["state"]
        if state is not None:
            self.resumed_step = int(state["step"])
        return state

    def with_rows(self, state: dict[str, Any], by_row: Sequence[str]) -> dict[str, Any]:
        """The state of a stage that `load` gave, with the rows that other files hold, where several ranks wrote it.

        Raises:
            CheckpointError: they are missing or damaged.
        """
        if not self.files:
            return state
        end = max(file.first + file.rows for file in self.files)
        rows = read_rows(self.path, self.files, 0, end)
        if set(rows) != set(by_row):
            raise CheckpointError(f"{self.path}: its rows are of another stage; remove it to start afresh")
        return with_rows(state, rows)

    def identity(self) -> str | None:
        """The identity of the run that the file is of; None where there is no file, or nothing but a plan in it.

        Raises:
            CheckpointError: the file is no checkpoint, or is damaged.
        """
        saved = self._read()
        return None if saved is None else saved["identity"]

    def save_probes(self, identity: str, probes: dict[str, list[float]]) -> None:
        """Keep what a plan has measured so far, so that a resumed plan measures only the rest.

        Args:
            identity: of the goal that is planned for, as in `save_plan`.
            probes: all numbers so far, by whatever name the planner gives each probe.
        """
        self._write_plan(identity, None, probes)

    def load_probes(self, identity: str) -> dict[str, list[float]]:
        """The probes of an unfinished plan for the goal with this identity; empty where there are none.

        Raises:
            CheckpointError: the file is of another run, is no checkpoint, or is damaged.
        """
        plan = self._read_plan(identity)
        return {} if plan is None else dict(plan["probes"])

    def save_plan(self, identity: str, options: dict[str, Any]) -> None:
        """Keep what was planned for a goal, so that a resumed run need not plan again."""
        self._write_plan(identity, options, {})

    def load_plan(self, identity: str) -> dict[str, Any] | None:
        """The options that were planned for the goal with this identity; None where the plan is not finished.

        Raises:
            CheckpointError: the file is of another run, is no checkpoint, or is damaged.
        """
        plan = self._read_plan(identity)
        return None if plan is None else plan["options"]

    def remove(self) -> None:
        """Delete the file, and those of its rows: the result is saved."""
        self.path.unlink(missing_ok=True)
        remove_row_files(self.path)

    def _write_plan(self, identity: str, options: dict[str, Any] | None, probes: dict[str, list[float]]) -> None:
        self._plan = {"identity": identity, "options": options, "probes": probes}
        self._write({"identity": None, "state": None, "plan": self._plan})

    def _read_plan(self, identity: str) -> dict[str, Any] | None:
        saved = self._read()
        if saved is None:
            return None
        if saved["plan"] is None or saved["plan"]["identity"] != identity:
            raise CheckpointError(
                f"{self.path}: belongs to a run with another table, other options or another size; "
                "repeat that run, or remove the file to start afresh"
            )
        self._plan = saved["plan"]
        return self._plan

    def failed(self, failure: FileError) -> None:
        """Warn that it could not be written, once, where there is one from before.

        Raises:
            FileError: there is none.
        """
        self._last = time.monotonic()
        if not self._is_there:
            raise failure
        if not self._has_warned:
            warnings.warn(
                f"{failure}; learning goes on, and the checkpoint from before stays", CheckpointWarning, stacklevel=5
            )
        self._has_warned = True

    def _write(self, content: Content) -> bool:
        """Write the file; whether that was possible."""
        try:
            write_checkpoint(self.path, content)
        except OSError as error:
            self.failed(file_error(self.path, "written", error))
            return False
        finally:
            self._last = time.monotonic()
        self._is_there, self._has_warned = True, False
        return True

    def _read(self) -> Content | None:
        try:
            content = read_checkpoint(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error(self.path, "read", error) from error
        self._is_there = True
        return content


def holding(checkpoint: Checkpoint | None) -> AbstractContextManager[Checkpoint | None]:
    """The block in which a run has its checkpoint to itself, where it has one."""
    return nullcontext() if checkpoint is None else checkpoint.held()
