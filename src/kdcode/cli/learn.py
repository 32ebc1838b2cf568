"""Planning and learning with a progress bar and a clean Ctrl-C; shared by `plan`, `compress` and `demo`."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import click

from kdcode.cli.flags import naming_flags
from kdcode.errors import OptionError
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, Planned, StepReport, TableShard


def require_learning(device: str = "cpu", *, torch: bool = True, quiet: bool = False) -> None:
    """Refuse to go on where torch is needed and not installed, or has no such device; importing it takes seconds.

    Raises:
        MissingExtraError: with the line that installs torch.
        OptionError: the device is not there.
    """
    from kdcode.learning.compression import needing_torch
    from kdcode.learning.devices import checked_device

    if torch:
        with progress("loading torch", quiet=quiet or "torch" in sys.modules), needing_torch("learning codes"):
            import kdcode.learning.codeword_tables  # noqa: F401 - imports torch

    with naming_flags(OptionError):
        checked_device(device)


def learn(
    table: TableShard,
    plan: Planned,
    *,
    title: str = "learning",
    quiet: bool = False,
    checkpoint: Checkpoint | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> CodedTable:
    """Learn what was planned; the first Ctrl-C, SIGTERM or SIGHUP ends it between two steps, its checkpoint saved.

    Of several ranks, this is for the first.
    """
    from kdcode.learning.compression import compress_planned
    from kdcode.learning.interrupts import stopping_at_safe_places
    from kdcode.learning.progress import showing_steps
    from kdcode.learning.run_settings import RunSettings

    with showing_steps(not quiet, title) as show, stopping_at_safe_places(on_asked=_tell_of_stopping) as stop_if_asked:
        told = quiet or checkpoint is None
        if not told:
            click.echo("learning; Ctrl-C stops it and keeps what is learned so far", err=True)

        def on_step(report: StepReport) -> None:
            nonlocal told
            if not told and checkpoint is not None and checkpoint.resumed_step:
                click.echo(f"resuming from step {checkpoint.resumed_step:,} of {report.total_steps:,}", err=True)
            told = True
            stop_if_asked()  # first, since a terminal that was closed cannot show anything
            if show is not None:
                show(report)
            stop_if_asked()

        how = RunSettings(on_step, device, threads, checkpoint)
        return cast("CodedTable", compress_planned(table, plan, how))


def _tell_of_stopping(number: int) -> None:
    again = "; Ctrl-C again stops at once" if number == signal.SIGINT else ""
    with suppress(OSError, RuntimeError):  # the terminal is gone, or the signal came while it was written to
        click.echo(f"\nstopping after this step{again}", err=True)
