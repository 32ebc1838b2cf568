"""A first Ctrl-C that lets the work stop at a safe place, and a second that does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click


@contextmanager
def stopping_at_safe_places() -> Iterator[Callable[[], None]]:
    """Hold a Ctrl-C back until the yielded function is called, which then raises KeyboardInterrupt."""
    asked = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        click.echo("\nstopping after this step; Ctrl-C again stops at once", err=True)

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
