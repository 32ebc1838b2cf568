"""Signals that end a run: they wait until the step is done, so that all that was learned can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What asks a process to end, besides Ctrl-C (SIGINT): the system, a scheduler, a terminal that is closed."""


class StoppedBySignal(SystemExit):
    """SIGTERM or SIGHUP has ended a run after its checkpoint was written.

    Where nobody catches it, the process ends without a traceback and with 128 + the number of the signal, which is what
    shells and schedulers see for a process that the signal has killed.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)

    def __str__(self) -> str:
        return f"stopped by {self.signal.name}"


def _raise(number: int, _frame: FrameType | None = None) -> None:
    raise KeyboardInterrupt if number == signal.SIGINT else StoppedBySignal(number)


def _unhandled(numbers: tuple[int, ...]) -> list[int]:
    """Those signals that do what they do of themselves; a caller's handler, and nohup's, are left alone."""
    if threading.current_thread() is not threading.main_thread():
        return []  # only the main thread may handle signals
    handlers = {number: signal.getsignal(number) for number in numbers}
    ctrl_c, others = (signal.default_int_handler,), (signal.SIG_DFL, _raise)
    return [number for number, found in handlers.items() if found in (ctrl_c if number == signal.SIGINT else others)]


@contextmanager
def _handling(numbers: list[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def ending_by_signal(wanted: bool = True) -> Iterator[None]:
    """SIGTERM and SIGHUP raise `StoppedBySignal` at once, so that files are closed and callers can say what is kept."""
    with _handling(_unhandled(_ENDING) if wanted else [], _raise):
        yield


@contextmanager
def stopping_at_safe_places(
    hold: bool = True,
    on_asked: Callable[[int], None] | None = None,
    shared: Callable[[int], int] | None = None,
) -> Iterator[Callable[[], None]]:
    """Hold the first Ctrl-C, SIGTERM or SIGHUP back until the yielded function is called, which then raises.

    It raises KeyboardInterrupt for Ctrl-C, and `StoppedBySignal` for the others. The second signal does not wait. Where
    the caller handles a signal in a way of its own, or ignores it, nothing is changed; a block inside of another leaves
    it to that one.

    Args:
        hold: whether signals wait at all.
        on_asked: called at the first signal with its number.
        shared: gives the number of a signal that any of several processes has got, for that of this one or 0, so that
            all of them stop at the same place; all call the yielded function there.
    """
    asked: int | None = None

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked is not None:
            _raise(number)
        asked = number
        if on_asked is not None:
            on_asked(number)

    def check() -> None:
        number = (asked or 0) if shared is None else shared(asked or 0)
        if number:
            _raise(number)

    with _handling(_unhandled((signal.SIGINT, *_ENDING)) if hold else [], on_signal):
        yield check
