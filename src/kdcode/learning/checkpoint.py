"""A file that a killed run goes on from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from kdcode.errors import CheckpointError
from kdcode.files import replacing

_VERSION = 1


class Checkpoint:
    """Where and how often a run saves itself.

    A run that finds its own checkpoint goes on from it and ends as if it had never stopped. Call `remove` when the
    result is safe.

    Args:
        path: the file.
        every_seconds: how often it is written; 0 writes it after every update.
    """

    def __init__(self, path: str | Path, every_seconds: float = 30.0) -> None:
        self.path = Path(path)
        self.every_seconds = every_seconds
        self.resumed_step = 0
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every_seconds

    def save(self, identity: str, state: dict[str, Any]) -> None:
        """Write the state of a run; the old file is there until the new one is whole."""
        with replacing(self.path) as temporary:
            torch.save({"version": _VERSION, "identity": identity, "state": state}, temporary)
        self._last = time.monotonic()

    def load(self, identity: str) -> dict[str, Any] | None:
        """The state of the run with this identity, or None where there is no file.

        Raises:
            CheckpointError: the file is of another run, or is no checkpoint.
        """
        if not self.path.exists():
            return None
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            good = isinstance(saved, dict) and saved.get("version") == _VERSION
        except Exception as error:  # whatever torch makes of bytes that are no checkpoint
            raise CheckpointError(f"{self.path}: not a checkpoint: {error}; remove it to start afresh") from error
        if not good:
            raise CheckpointError(f"{self.path}: not a checkpoint of this kdcode; remove it to start afresh")
        if saved["identity"] != identity:
            raise CheckpointError(
                f"{self.path}: belongs to a run with another table or other options; "
                "repeat that run, or remove the file to start afresh"
            )
        state: dict[str, Any] = saved["state"]
        self.resumed_step = int(state["step"])
        return state

    def remove(self) -> None:
        """Delete the file: the result is saved."""
        self.path.unlink(missing_ok=True)
