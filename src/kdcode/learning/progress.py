"""What a learner tells its caller while it works, and a bar that shows it where one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kdcode.progress_bar import progress as shown_progress


@dataclass(frozen=True)
class StepReport:
    """The state of learning after a step: an update by one batch, or a round over all rows.

    Args:
        step: steps done so far, from 1.
        total_steps: steps of the whole run.
        loss: squared error of the rows seen over their share of the table's variance; 1 is the mean vector for all.
        codes_changed: share of their code positions that differ from when the rows were last seen.
        temperature: T of this step; 0 in a round that has none.
        unused_codewords: codewords that no symbol used at the end of the last epoch.
        work_done: share of the run's work that is done, from 0 to 1: steps take more or less time.
    """

    step: int
    total_steps: int
    loss: float
    codes_changed: float
    temperature: float
    unused_codewords: int
    work_done: float = 0.0


OnStep = Callable[[StepReport], None]
OnCandidate = Callable[[int, int, str], None]
"""Called before each probe of a plan with how many are done, how many there will be at most, and its name."""


@contextmanager
def showing_steps(progress: bool | OnStep, title: str = "learning") -> Iterator[OnStep | None]:
    """Gives the callback of a run: the caller's own function, one that draws a bar for True, or None for False.

    The block is all of the run: the start before the first step and the measuring after the last are shown too.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    with shown_progress(title, before=f"{title} (starting)", after=f"{title} (measuring)") as advance:
        yield lambda report: advance(report.work_done, 1.0, f"loss {report.loss:.4f}")


@contextmanager
def showing_candidates(progress: bool | OnCandidate) -> Iterator[OnCandidate | None]:
    """Gives the callback of a plan: the caller's own function, one that draws a bar for True, or None for False."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    with shown_progress("planning", with_time_left=False) as advance:  # probes differ, and may be fewer than said
        yield advance
