"""A file that a stopped run resumes from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from kdcode.errors import CheckpointError
from kdcode.files import replacing

_VERSION = 3


class Checkpoint:
    """Where and how often a run saves itself.

    A run that finds its own checkpoint resumes from it and ends as if it had never stopped. The file is written when a
    run begins, so that a second run with the same path and another table or other options is refused and cannot
    overwrite it. Call `remove` when the result is safe.

    Args:
        path: the file.
        every_seconds: how often it is written; 0 writes it after every update.
    """

    def __init__(self, path: str | Path, every_seconds: float = 30.0) -> None:
        self.path = Path(path)
        self.every_seconds = every_seconds
        self.resumed_step = 0
        self._last = time.monotonic()
        self._plan: dict[str, Any] | None = None

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every_seconds

    def save(self, identity: str, state: dict[str, Any] | None) -> None:
        """Write the state of a run, None where it has only begun; the old file is there until the new one is whole."""
        self._write({"identity": identity, "state": state, "plan": self._plan})

    def load(self, identity: str) -> dict[str, Any] | None:
        """The state of the run with this identity; None where there is no file, or nothing was learned yet.

        Raises:
            CheckpointError: the file is of another run, or is no checkpoint.
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
        state: dict[str, Any] | None = saved["state"]
        if state is not None:
            self.resumed_step = int(state["step"])
        return state

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
            CheckpointError: the file is of another run, or is no checkpoint.
        """
        plan = self._read_plan(identity)
        return {} if plan is None else dict(plan["probes"])

    def save_plan(self, identity: str, options: dict[str, Any]) -> None:
        """Keep what was planned for a goal, so that a resumed run need not plan again."""
        self._write_plan(identity, options, {})

    def load_plan(self, identity: str) -> dict[str, Any] | None:
        """The options that were planned for the goal with this identity; None where the plan is not finished.

        Raises:
            CheckpointError: the file is of another run, or is no checkpoint.
        """
        plan = self._read_plan(identity)
        return None if plan is None else plan["options"]

    def remove(self) -> None:
        """Delete the file: the result is saved."""
        self.path.unlink(missing_ok=True)

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

    def _write(self, content: dict[str, Any]) -> None:
        with replacing(self.path) as temporary:
            torch.save({"version": _VERSION, **content}, temporary)
        self._last = time.monotonic()

    def _read(self) -> dict[str, Any] | None:
        if not self.path.exists():
            return None
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            good = isinstance(saved, dict) and saved.get("version") == _VERSION
        except Exception as error:  # whatever torch makes of bytes that are no checkpoint
            raise CheckpointError(f"{self.path}: not a checkpoint: {error}; remove it to start afresh") from error
        if not good:
            raise CheckpointError(f"{self.path}: not a checkpoint of this kdcode; remove it to start afresh")
        return dict(saved)
