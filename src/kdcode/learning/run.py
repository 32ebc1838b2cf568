"""A run's ties to its caller: reports after every step, and checkpoints to resume from."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import torch

from kdcode._version import __version__
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.progress import OnStep, StepReport
from kdcode.table import VectorTable

State = dict[str, Any]


class Run:
    """One run of one or more stages, whose steps are counted through.

    Args:
        total_steps: steps of all stages.
        identity: fingerprint of table and options; a checkpoint of another run is refused.
        on_step: the caller's callback.
        checkpoint: where the run saves itself, or None.
        work: how long each step takes, in any unit; all alike where left out. Reports tell the share that is done.
    """

    def __init__(
        self,
        total_steps: int,
        identity: str = "",
        on_step: OnStep | None = None,
        checkpoint: Checkpoint | None = None,
        work: Sequence[float] | None = None,
    ) -> None:
        self.total_steps = total_steps
        self._identity = identity
        self._on_step = on_step
        self._checkpoint = checkpoint
        self._saved = checkpoint.load(identity) if checkpoint is not None else None
        if checkpoint is not None and self._saved is None:
            checkpoint.save(identity, None)  # claims the file
        self._stage = -1
        self._step = self._steps_before = 0
        self._work_done = list(accumulate(work or [1.0] * total_steps, initial=0.0))
        self._seconds_before = 0.0 if self._saved is None else float(self._saved["seconds"])
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the run began, those before it was stopped and resumed among them."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def resumed_stage(self) -> int | None:
        """The stage that the checkpoint was written in; None for a fresh run."""
        return None if self._saved is None else int(self._saved["stage"])

    def begin(self, stage: int) -> State | None:
        """Start a stage; gives back the state to resume from, where the checkpoint has one of this stage."""
        self._stage, self._steps_before = stage, self._step
        if self._saved is None or self._saved["stage"] != stage:
            return None
        self._steps_before, self._step = self._saved["steps_before"], self._saved["step"]
        state: State = self._saved["state"]
        return state

    def after_step(self, report: StepReport, state: Callable[[], State] | None = None) -> None:
        """Save if it is time, and tell the caller; if the caller raises, save first.

        Args:
            report: with steps counted within the stage.
            state: makes the state to save; None where there is nothing to resume from.
        """
        self._step = step = self._steps_before + report.step
        if state is not None and self._checkpoint is not None and self._checkpoint.due():
            self._save(step, state)
        if self._on_step is None:
            return
        try:
            share = self._work_done[step] / self._work_done[-1]
            self._on_step(replace(report, step=step, total_steps=self.total_steps, work_done=share))
        except BaseException:
            if state is not None and self._checkpoint is not None:
                self._save(step, state)
            raise

    def _save(self, step: int, state: Callable[[], State]) -> None:
        if self._checkpoint is not None:
            place = {"step": step, "stage": self._stage, "steps_before": self._steps_before}
            self._checkpoint.save(self._identity, {**place, "seconds": self.seconds, "state": state()})


class Resumable:
    """A learner whose checkpoint holds the attributes that `saved` names.

    Modules and optimisers are saved by their `state_dict`, dataclasses by their fields, all else as it is.
    """

    saved: ClassVar[tuple[str, ...]]
    device: torch.device

    def state(self) -> State:
        """Everything that the rest of the run depends on."""
        return {name: _plain(getattr(self, name)) for name in self.saved}

    def load_state(self, state: State) -> None:
        """Take over what `state` gave."""
        for name in self.saved:
            setattr(self, name, _restored(getattr(self, name), state[name], self.device))


def _plain(value: Any) -> Any:  # noqa: ANN401 - values of any type
    if hasattr(value, "state_dict"):
        return value.state_dict()
    return vars(value) if is_dataclass(value) else value


def _restored(current: Any, saved: Any, device: torch.device) -> Any:  # noqa: ANN401 - values of any type
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(saved)
        return current
    if is_dataclass(current) and not isinstance(current, type):
        return type(current)(**{name: _restored(None, value, device) for name, value in saved.items()})
    if isinstance(saved, dict):
        return {name: _restored(None, value, device) for name, value in saved.items()}
    if isinstance(current, torch.Tensor):
        return current.copy_(saved)  # an optimiser may hold the same tensor
    return saved.to(device) if isinstance(saved, torch.Tensor) else saved


def run_identity(table: VectorTable, *settings: object) -> str:
    """A fingerprint of a run: its settings, as JSON values, and its vectors."""
    digest = hashlib.sha256(json.dumps([__version__, *settings, len(table), table.embedding_dim]).encode())
    for _, vectors in table.chunks():
        digest.update(np.ascontiguousarray(vectors).tobytes())
    if table.weights is not None:
        digest.update(table.weights.tobytes())
    return digest.hexdigest()
