"""Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere, nothing when asked to be quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[..., None]
"""Called as advance(done, total, note): total may be None where it is not known."""

_LINE_SECONDS = 10.0


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Advance]:
    """Show one piece of work while the block runs."""
    if quiet:
        yield lambda done, total=None, note="": None
    elif sys.stderr.isatty():
        with _bar(title) as advance:
            yield advance
    else:
        yield _lines(title)


def _lines(title: str) -> Advance:
    last = time.monotonic()
    first: tuple[int, float] | None = None

    def advance(done: int, total: int | None = None, note: str = "") -> None:
        nonlocal last, first
        now = time.monotonic()
        first = first or (done, now)  # the rate counts from here: work may be resumed, or slow to start
        if now - last < _LINE_SECONDS:
            return
        last = now
        parts = [f"{done / total:.0%}" if total else f"{done:,}"]
        if total and done > first[0]:
            parts.append(f"{clock((now - first[1]) * (total - done) / (done - first[0]))} left")
        click.echo(f"{title}: {', '.join([*parts, note] if note else parts)}", err=True)

    return advance


@contextmanager
def _bar(title: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(compact=True),
        TextColumn("[dim]{task.fields[note]}"),
    )
    started = False
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(title, total=None, note="")

        def advance(done: int, total: int | None = None, note: str = "") -> None:
            nonlocal started
            if not started:
                drawn.reset(task, completed=done, total=total)  # the rate counts from here, as in lines
            started = True
            drawn.update(task, completed=done, total=total, note=note)

        yield advance


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
