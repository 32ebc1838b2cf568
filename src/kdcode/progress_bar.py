"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing when asked to be quiet.

The share that is done only rises, and the time left only falls. What is shown moves within the first second and during
long steps, since the bar draws itself ten times a second with the time that has passed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.progress import Task

Advance = Callable[..., None]
"""Called as advance(done, total, note): total may be None where it is not known."""

_LINE_SECONDS = 10.0
_FIRST_SECONDS, _FIRST_SHARE = 1.0, 0.002
"""Work that the first estimate of the time left is made from, at least."""
_FAR_OFF, _FAR_OFF_SECONDS = 1.5, 5.0
"""How many times, and by how much, an estimate exceeds the time left that is shown before that is said."""


@contextmanager
def progress(
    title: str, *, quiet: bool = False, before: str = "", after: str = "", with_time_left: bool = True
) -> Iterator[Advance]:
    """Show one piece of work while the block runs.

    Args:
        title: what is done.
        quiet: show nothing.
        before: what is done until the first step is reported; the title where left out.
        after: what is done when all steps are; the title where left out.
        with_time_left: whether the steps are alike enough to tell the time left from them.
    """
    if quiet:
        yield lambda done, total=None, note="": None
        return
    state = ProgressState(title, before, after, with_time_left=with_time_left)
    with _bar(state) if sys.stderr.isatty() else _lines(state) as changed:

        def advance(done: float, total: float | None = None, note: str = "") -> None:
            state.update(done, total, note)
            changed()

        yield advance


class ProgressState:
    """How far a piece of work is, and how long it takes.

    Args:
        title, before, after, with_time_left: see `progress`.
    """

    def __init__(self, title: str, before: str = "", after: str = "", *, with_time_left: bool = True) -> None:
        self.done, self.note = 0.0, ""
        self.share: float | None = None
        self._title, self._before, self._after = title, before or title, after or title
        self._started = time.monotonic()
        self._time_left = TimeLeft() if with_time_left else None
        self._has_begun = False

    def update(self, done: float, total: float | None, note: str) -> None:
        """Take over how much of the total is done; what is less than before is taken as no news."""
        self.done, self.note, self._has_begun = max(done, self.done), note, True
        if total:
            self.share = min(1.0, max(done / total, self.share or 0.0))
            if self._time_left is not None:
                self._time_left.update(self.share, time.monotonic())

    @property
    def phase(self) -> str:
        """What is being done now."""
        if not self._has_begun:
            return self._before
        return self._after if self.share == 1 else self._title

    def facts(self) -> list[str]:
        """How much is done, how long it took and will take, as far as they are known."""
        now = time.monotonic()
        known = [f"{self.share:.0%}"] if self.share is not None else [f"{self.done:,.0f}"] if self.done else []
        elapsed = clock(now - self._started)
        left = "" if self._time_left is None or self.share == 1 else self._time_left.text(now)
        times = [elapsed, left] if left else [f"{elapsed} so far"]
        return [*known, *times, *([self.note] if self.note else [])]


class TimeLeft:
    """The time left of some work, from how quick it went so far. It never grows.

    It counts from the first report: before it work may have been resumed, or slow to start. Where an estimate exceeds
    what was shown, that stays, and if by much it is called a lower bound.
    """

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._share = 0.0
        self._estimate = self._after_next_step = self._when = 0.0
        self._shown: float | None = None

    def update(self, share: float, now: float) -> None:
        """Take over which share of the work is done at a time in seconds."""
        if self._first is None:
            self._first = (share, now)
        (first_share, began), step = self._first, share - self._share
        self._share = share
        if share - first_share < _FIRST_SHARE or now - began < _FIRST_SECONDS:
            return
        per_share = (now - began) / (share - first_share)
        self._estimate, self._when = per_share * (1 - share), now
        self._after_next_step = per_share * max(0.0, 1 - share - step)

    def text(self, now: float) -> str:
        """The time left in words; empty where nothing is known of it yet."""
        if not self._when:
            return ""
        estimate = max(self._estimate - (now - self._when), self._after_next_step)
        self._shown = estimate if self._shown is None else min(estimate, self._shown)
        is_more = estimate > self._shown * _FAR_OFF and estimate > self._shown + _FAR_OFF_SECONDS
        return f"{'more than ' if is_more else ''}{clock(self._shown)} left"


class _IfItCan:
    """A stream that loses what it cannot write: a terminal that was closed is no reason to stop the work."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


@contextmanager
def _lines(state: ProgressState) -> Iterator[Callable[[], None]]:
    """A line every ten seconds: with a step that is reported, or without one where it takes longer."""
    last, ended, lock = time.monotonic(), threading.Event(), threading.Lock()

    def write_if_due() -> None:
        nonlocal last
        with lock:
            now = time.monotonic()
            if now - last < _LINE_SECONDS:
                return
            last = now
            stream = _IfItCan(sys.stderr)
            stream.write(f"{state.phase}: {', '.join(state.facts())}\n")
            stream.flush()

    def keep_writing() -> None:
        while not ended.wait(_LINE_SECONDS / 4):
            write_if_due()

    writer = threading.Thread(target=keep_writing, daemon=True)
    writer.start()
    try:
        yield write_if_due
    finally:
        ended.set()
        writer.join()


@contextmanager
def _bar(state: ProgressState) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn
    from rich.text import Text

    class Phase(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(state.phase)

    class Facts(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(", ".join(state.facts()))

    columns = (Phase(), BarColumn(bar_width=20), Facts())
    console = Console(file=cast("IO[str]", _IfItCan(sys.stderr)))
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task("", total=None)

        def redraw() -> None:
            if state.share is not None:
                drawn.update(task, completed=state.share, total=1.0)

        yield redraw


def clock(seconds: float) -> str:
    """A stretch of time for people: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
