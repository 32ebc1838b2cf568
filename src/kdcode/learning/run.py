"""A run's ties to its caller: reports after every step, and checkpoints to resume from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kdcode.errors import CheckpointError
from kdcode.learning.progress import OnStep, StepReport
from kdcode.learning.ranks import ALONE, Ranks

State = dict[str, Any]

CURVE_POINTS = 32
"""How many losses a run remembers, at most: its curve has to fit into the header of a file."""


class RunCheckpoint(Protocol):
    """Where a run saves itself: a `Checkpoint`, or that of several ranks."""

    @property
    def path(self) -> Path:
        """The file."""

    def due(self) -> bool:
        """Whether it is time to save."""

    def load(self, identity: str) -> State | None:
        """The state of the run with this identity, without rows that have files of their own."""

    def save(self, identity: str, state: State | None, by_row: Sequence[str] = ()) -> None:
        """Write a state; `by_row` are the paths of tensors with a row for each of the table's."""

    def with_rows(self, state: State, by_row: Sequence[str]) -> State:
        """The state of a stage with the rows that are here."""


class Run:
    """One run of one or more stages, whose steps are counted through.

    Args:
        stages: by the number of each stage, in their order, how long each of its steps takes, in any unit. A number
            alone is that of the steps of stage 0, all alike.
        identity: fingerprint of table and options; a checkpoint of another run is refused.
        on_step: the caller's callback.
        checkpoint: where the run saves itself, or None.
        ranks: who shares the run.

    Attributes:
        losses: after some of the steps so far, evenly spaced, those before a run was stopped and resumed among them;
            see `curve`.

    Raises:
        CheckpointError: the checkpoint is of another run, or of no stage of this one.
    """

    def __init__(
        self,
        stages: Mapping[int, Sequence[float]] | int,
        identity: str = "",
        on_step: OnStep | None = None,
        checkpoint: RunCheckpoint | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self._ranks = ranks
        self._by_row: Sequence[str] = ()
        self._stages = {0: [1.0] * stages} if isinstance(stages, int) else dict(stages)
        work = [step for steps in self._stages.values() for step in steps]
        self.total_steps = len(work)
        self._identity = identity
        self._on_step = on_step
        self._checkpoint = checkpoint
        self._saved = checkpoint.load(identity) if checkpoint is not None else None
        if self._saved is not None:
            self._check_place(self._saved)
        elif checkpoint is not None:
            checkpoint.save(identity, None)  # claims the file
        self._stage = -1
        self._step = self._steps_before = 0
        self._work_done = list(accumulate(work, initial=0.0))
        self._seconds_before = 0.0 if self._saved is None else float(self._saved["seconds"])
        self._started = time.monotonic()
        self.losses: list[float] = [] if self._saved is None else list(self._saved["losses"])

    @property
    def seconds(self) -> float:
        """Seconds since the run began, those before it was stopped and resumed among them."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def curve(self) -> dict[str, Any]:
        """How the loss fell, for provenance.

        It has the number of `steps`, and `losses` at n places, of which place i, counted from 1, comes after a share of
        i/n of the steps. What is no finite number becomes None.
        """
        return {"steps": self.total_steps, "losses": [loss if math.isfinite(loss) else None for loss in self.losses]}

    @property
    def resumed_stage(self) -> int | None:
        """The stage that the checkpoint was written in; None for a fresh run."""
        return None if self._saved is None else int(self._saved["stage"])

    def begin(self, stage: int, load: Callable[[State], int] | None = None, by_row: Sequence[str] = ()) -> bool:
        """Start a stage, from its state in the checkpoint where that was written in this stage.

        Args:
            stage: its number.
            load: takes over such a state, and gives back how many steps of the stage it has behind it.
            by_row: paths of the tensors in its states that have a row for each of the table's, such as "best.codes".

        Returns:
            Whether a state was taken over.

        Raises:
            CheckpointError: the state is not one of this stage.
        """
        self._stage, self._steps_before = stage, self._steps_to(stage)
        self._step, self._by_row = self._steps_before, by_row
        if self._saved is None or load is None or self._saved["stage"] != stage or self._checkpoint is None:
            return False
        with self._ranks.together():
            try:
                done = load(self._checkpoint.with_rows(self._saved["state"], by_row))
            except CheckpointError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                raise self._unfit(f"its state is not one of stage {stage}: {error}") from error
            self._step = self._saved["step"]
            if self._steps_before + done != self._step:
                raise self._unfit(f"it is of step {self._step}, and its state of step {self._steps_before + done}")
        return True

    def _steps_to(self, stage: int) -> int:
        return sum(len(steps) for number, steps in self._stages.items() if number < stage)

    def _check_place(self, saved: State) -> None:
        """Refuse a checkpoint of a stage that this run does not have, or of a step that is not in its stage."""
        stage, step = saved["stage"], saved["step"]
        if stage not in self._stages:
            raise self._unfit(f"stage {stage} is none of this run's")
        before = self._steps_to(stage)
        if not before < step <= before + len(self._stages[stage]):
            raise self._unfit(f"step {step} is not one of stage {stage}")

    def _unfit(self, reason: str) -> CheckpointError:
        path = None if self._checkpoint is None else self._checkpoint.path
        return CheckpointError(f"{path}: the checkpoint does not fit this run: {reason}; remove it to start afresh")

    def after_step(self, report: StepReport, state: Callable[[], State] | None = None) -> None:
        """Save if it is time, and tell the caller; if the caller raises, save first.

        Args:
            report: with steps counted within the stage.
            state: makes the state to save; None where there is nothing to resume from.
        """
        self._step = step = self._steps_before + report.step
        self._remember(step, report.loss)
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

    def _remember(self, step: int, loss: float) -> None:
        """Keep a loss for every place of the curve up to a step; steps that a learner had no need of have this one."""
        points = min(CURVE_POINTS, self.total_steps)
        while len(self.losses) < points and step * points >= self.total_steps * (len(self.losses) + 1):
            self.losses.append(float(f"{loss:.4g}"))

    def _save(self, step: int, state: Callable[[], State]) -> None:
        if self._checkpoint is not None:
            place = {"step": step, "stage": self._stage, "seconds": self.seconds, "losses": self.losses}
            self._checkpoint.save(self._identity, {**place, "state": state()}, self._by_row)


class Resumable:
    """A learner whose checkpoint holds the attributes that `saved` names; `by_row` are paths as `Run.begin` takes them.

    What has a `state_dict` is saved by it, dataclasses by their fields, all else as it is.
    """

    saved: ClassVar[tuple[str, ...]]
    by_row: ClassVar[tuple[str, ...]] = ("codes", "best.codes")

    def state(self) -> State:
        """Everything that the rest of the run depends on."""
        return {name: _plain(getattr(self, name)) for name in self.saved}

    def load_state(self, state: State) -> None:
        """Take over what `state` gave.

        Raises:
            ValueError: it is the state of something else.
        """
        if set(state) != set(self.saved):
            raise ValueError(f"it has {sorted(state)}, expected {sorted(self.saved)}")
        for name in self.saved:
            _check_alike(name, getattr(self, name), state[name])
        for name in self.saved:
            setattr(self, name, _restored(getattr(self, name), state[name]))


def _plain(value: Any) -> Any:  # noqa: ANN401 - values of any type
    if hasattr(value, "state_dict"):
        return value.state_dict()
    return vars(value) if is_dataclass(value) else value


def _restored(current: Any, saved: Any) -> Any:  # noqa: ANN401 - values of any type
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(saved)
        return current
    if is_dataclass(current) and not isinstance(current, type):
        return type(current)(**saved)
    if hasattr(current, "copy_"):
        return current.copy_(saved)  # an optimiser may hold the same tensor
    return saved


def _check_alike(name: str, current: object, saved: object) -> None:
    """Refuse a value that cannot take the place of the current one: of another type, shape, or with other parts."""
    if is_dataclass(current) and not isinstance(current, type):
        current = vars(current)
    if current is None or hasattr(current, "load_state_dict"):
        return  # not set yet, or checks for itself
    if _kind(saved) != _kind(current):
        raise ValueError(f"{name} is {_kind(saved)}, expected {_kind(current)}")
    if isinstance(current, dict) and isinstance(saved, dict):
        for part, value in current.items():
            _check_alike(f"{name}.{part}", value, saved[part])


def _kind(value: Any) -> str:  # noqa: ANN401 - values of any type
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"{type(value).__name__} of {sorted(value)}" if isinstance(value, dict) else type(value).__name__
