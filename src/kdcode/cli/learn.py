"""Planning and learning with a progress bar and a clean Ctrl-C; shared by `plan`, `compress` and `demo`."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import click

from kdcode.cli.flags import naming_flags
from kdcode.errors import MissingExtraError, OptionError
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, Planned, StepReport, TableShard
    from kdcode.options import CompressOptions


def require_learning(options: CompressOptions, device: str = "cpu", *, quiet: bool = False) -> None:
    """Refuse learners and devices that are not there; where they need torch it is imported, which takes seconds.

    Raises:
        MissingExtraError: with the line that installs torch.
        OptionError: torch has no such device.
    """
    from kdcode.learning.run_settings import checked_device

    if options.needs_torch:
        require_torch(f"the learner {options.learning.name}", quiet=quiet)
    with naming_flags(OptionError):
        checked_device(device)


def require_torch(purpose: str, *, quiet: bool = False) -> None:
    """Import torch.

    Raises:
        MissingExtraError: with the line that installs it.
    """
    with progress("loading torch", quiet=quiet or "torch" in sys.modules):
        try:
            import torch  # noqa: F401 - for those who come after
        except ImportError:
            raise MissingExtraError(purpose, "torch") from None


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
