"""Planning and learning with a progress bar and a clean Ctrl-C; shared by `plan`, `compress` and `demo`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from kdcode.cli.progress import progress
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, StepReport
    from kdcode.options import CompressOptions
    from kdcode.table import VectorTable


def require_learning(device: str = "cpu") -> None:
    """Refuse to go on where torch is not installed or has no such device.

    Raises:
        MissingExtraError: with the line that installs torch.
        OptionError: the device is not there.
    """
    import kdcode.learning  # noqa: F401 - says itself what is missing

    if device == "cpu":
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        raise OptionError(f"--device {device}: torch cannot use it here: {str(error).splitlines()[0]}") from None


@contextmanager
def stopping_at_safe_places() -> Iterator[Callable[[], None]]:
    """Hold the first Ctrl-C back until the yielded function is called, which then raises KeyboardInterrupt."""
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


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Run torch on one thread: the same codes on every machine, and no slower for batches this small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def planning(*, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Show a plan's progress: gives the `on_candidate` for it. A Ctrl-C stops it between two candidates."""
    with progress("planning", quiet=quiet) as advance, stopping_at_safe_places() as stop_if_asked:

        def on_candidate(done: int, of: int, name: str) -> None:
            advance(done, of, name)
            stop_if_asked()

        yield on_candidate
        stop_if_asked()  # during the last candidate


def learn(
    table: VectorTable,
    options: CompressOptions,
    *,
    title: str = "learning",
    quiet: bool = False,
    device: str = "cpu",
    checkpoint: Checkpoint | None = None,
) -> CodedTable:
    """Run `kdcode.compress`; the first Ctrl-C ends it between two steps, its checkpoint saved."""
    from kdcode.learning import compress

    with progress(title, quiet=quiet) as advance, stopping_at_safe_places() as stop_if_asked:
        told = quiet or checkpoint is None
        if not told:
            click.echo("learning; Ctrl-C stops it and keeps what is learned so far", err=True)

        def on_step(report: StepReport) -> None:
            nonlocal told
            if not told and checkpoint is not None and checkpoint.resumed_step:
                click.echo(f"resuming from step {checkpoint.resumed_step:,} of {report.total_steps:,}", err=True)
            told = True
            note = f"loss {report.loss:.4f}, {report.codes_changed:.1%} of codes changed"
            advance(report.step, report.total_steps, note)
            stop_if_asked()

        return compress(table, options, on_step=on_step, checkpoint=checkpoint, device=device)
