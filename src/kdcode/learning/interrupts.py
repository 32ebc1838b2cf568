"""A Ctrl-C that waits until the step is done, so that all that was learned can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_at_safe_places(
    hold: bool = True, on_asked: Callable[[], None] | None = None
) -> Iterator[Callable[[], None]]:
    """Hold the first Ctrl-C back until the yielded function is called, which then raises KeyboardInterrupt.

    The second one does not wait. Where the caller handles Ctrl-C in a way of its own, nothing is changed; a block
    inside of another leaves it to that one.

    Args:
        hold: whether Ctrl-C waits at all.
        on_asked: called at the first Ctrl-C.
    """
    asked = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if on_asked is not None:
            on_asked()

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not (hold and is_main) or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check  # only the main thread may handle signals
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
