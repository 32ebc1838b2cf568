"""A run's ties to its caller: reports after every step, and checkpoints to go on from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.progress import OnStep, StepReport

State = dict[str, Any]


class Run:
    """One run of one or more stages, whose steps are counted through.

    Args:
        total_steps: steps of all stages.
        identity: fingerprint of table and options; a checkpoint of another run is refused.
        on_step: the caller's callback.
        checkpoint: where the run saves itself, or None.
    """

    def __init__(
        self,
        total_steps: int,
        identity: str = "",
        on_step: OnStep | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.total_steps = total_steps
        self._identity = identity
        self._on_step = on_step
        self._checkpoint = checkpoint
        self._saved = checkpoint.load(identity) if checkpoint is not None else None
        self._stage = -1
        self._step = self._steps_before = 0

    @property
    def resumed_stage(self) -> int | None:
        """The stage that the checkpoint was written in; None for a fresh run."""
        return None if self._saved is None else int(self._saved["stage"])

    def begin(self, stage: int) -> State | None:
        """Start a stage; gives back the state to go on from, where the checkpoint has one of this stage."""
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
            state: makes the state to save; None where there is nothing to go on from.
        """
        self._step = step = self._steps_before + report.step
        if state is not None and self._checkpoint is not None and self._checkpoint.due():
            self._save(step, state)
        if self._on_step is None:
            return
        try:
            self._on_step(replace(report, step=step, total_steps=self.total_steps))
        except BaseException:
            if state is not None and self._checkpoint is not None:
                self._save(step, state)
            raise

    def _save(self, step: int, state: Callable[[], State]) -> None:
        if self._checkpoint is not None:
            place = {"step": step, "stage": self._stage, "steps_before": self._steps_before}
            self._checkpoint.save(self._identity, {**place, "state": state()})
