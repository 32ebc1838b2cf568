"""Learning with a progress bar and a clean Ctrl-C; shared by `compress` and `demo`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from kdcode.cli.interrupt import stopping_at_safe_places
from kdcode.cli.progress import progress
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, Plan, StepReport
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
def on_one_thread() -> Iterator[None]:
    """Run torch on one thread: the same codes on every machine, and no slower for batches this small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Limits(NamedTuple):
    """How small, or how good: the values of three flags, of which one is given."""

    size: str | None
    bits: int | None
    max_error: float | None


def make_plan(
    table: VectorTable,
    options: CompressOptions,
    limits: Limits,
    *,
    quiet: bool = False,
    device: str = "cpu",
) -> Plan:
    """Run `kdcode.plan` with a progress bar."""
    from kdcode.learning import plan

    with progress("planning", quiet=quiet) as advance, stopping_at_safe_places() as stop_if_asked:

        def on_candidate(done: int, of: int, name: str) -> None:
            advance(done, of, name)
            stop_if_asked()

        return plan(
            table,
            limits.size,
            bits=limits.bits,
            max_error=limits.max_error,
            options=options,
            on_candidate=on_candidate,
            device=device,
        )


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
                click.echo(f"going on from step {checkpoint.resumed_step:,} of {report.total_steps:,}", err=True)
            told = True
            note = f"loss {report.loss:.4f}, {report.codes_changed:.1%} of codes changed"
            advance(report.step, report.total_steps, note)
            stop_if_asked()

        return compress(table, options, on_step=on_step, checkpoint=checkpoint, device=device)
