"""Tables that are read in parts: how many of their rows are learned from; `compress` of those larger than memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kdcode.cli import page
from kdcode.cli.checkpoints import telling_what_is_kept
from kdcode.cli.files import STANDARD, is_of_parts, output_file
from kdcode.cli.flags import naming_flags
from kdcode.errors import CheckpointError, KdcodeError, OptionError
from kdcode.printable import shown
from kdcode.progress_bar import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdcode.io import Reader, ReadOptions
    from kdcode.learning import Goal
    from kdcode.learning.memory_plan import MemoryPlan
    from kdcode.options import CompressOptions

_LARGE_FILE = 64 << 20
"""Bytes of a file from which it is looked at whether it fits into memory."""

SAMPLE_FLAGS = (
    click.option(
        "--sample",
        type=click.IntRange(min=1),
        help="Learn from this many rows, drawn evenly, and only encode the others; for files that are read in parts.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory to use at most, like 4GB; by default half of what is free. Larger tables are learned by a sample.",
    ),
)


def with_sample_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of tables that may be larger than memory."""
    for flag in reversed(SAMPLE_FLAGS):
        command = flag(command)
    return command


class PartedTable(NamedTuple):
    """A table that is read in parts, and how it is learned from."""

    source: Reader
    plan: MemoryPlan


def parted_table(
    source: str,
    format_name: str | None,
    reading: ReadOptions,
    options: CompressOptions,
    memory: str | None,
    sample: int | None,
) -> PartedTable | None:
    """The table and its plan, where it is large, or named as parts, or a sample or a limit is asked for; else None.

    Raises:
        OptionError: a sample or a limit is asked for of a file that cannot be read in parts.
    """
    from kdcode.io import IN_PARTS, can_be_parts, open_reader
    from kdcode.learning.memory_plan import plan_memory

    is_asked = memory is not None or sample is not None
    is_known = format_name is None or format_name in IN_PARTS
    in_parts = source != STANDARD and is_known and (is_of_parts(source) or can_be_parts(source))
    if not in_parts:
        if is_asked:
            flag = "--sample" if sample is not None else "--memory"
            raise OptionError(f"{flag} is for {', '.join(IN_PARTS)} files, which can be read in parts")
        return None
    if not is_asked and not is_of_parts(source) and Path(source).stat().st_size < _LARGE_FILE:
        return None
    with naming_flags(OptionError):
        rows = open_reader(source, reading)
        return PartedTable(rows, plan_memory(len(rows), rows.embedding_dim, options, memory, sample))


def compress_streamed(
    table: PartedTable,
    target: str,
    options: CompressOptions,
    goal: Goal | None,
    settings: dict[str, Any],
    *,
    fresh: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Compress a table that is larger than memory.

    Args:
        table: the table.
        target: OUT.
        options: of compression.
        goal: what they are planned for, or None.
        settings: device and threads, and whether to show progress.
        fresh: whether what an earlier run has done is thrown away.

    Returns:
        What `--json` prints, and what is printed else.
    """
    from kdcode.bulk.file_compression import WORK_FOLDER, compress_file
    from kdcode.storage import load

    if goal is not None and goal.max_error is not None:
        raise OptionError("--max-error is for tables that are learned from as a whole; give --size or --bits")
    size, bits = (None, None) if goal is None else (goal.size, goal.bits)
    with output_file(target) as path, _going_on(Path(f"{path}{WORK_FOLDER}"), fresh=fresh):
        if settings["progress"]:
            page.echo(_announcement(table), err=True)
        report = compress_file(table.source, path, size, bits=bits, memory=table.plan, options=options, **settings)
        coded = load(path)
        result = {
            **page.describe(coded, path),
            "file": target,
            "sample": report.sample,
            "memory": report.memory,
            "seconds": report.learning_seconds,
        }
        measured = coded.provenance
        result |= {name: measured[name] for name in ("relative_error", "unseen_error") if name in measured}
        facts = {
            **page.quality(result, coded),
            "learned from": f"{report.sample:,} of {report.rows:,} rows, in {clock(report.learning_seconds)}",
        }
        sizes = page.size_rows(coded.sizes, len(coded), coded.embedding_dim, report.file_bytes)
        title = "standard output" if target == STANDARD else shown(target)
        lines = [click.style(title, bold=True), *sizes, "", *(f"  {line}" for line in page.pairs(facts))]
        return result, lines


def _announcement(table: PartedTable) -> list[str]:
    plan, dim = table.plan, table.source.embedding_dim
    return [
        f"{plan.rows:,} x {dim:,}: learning from {plan.sample:,} rows, and encoding all of them a piece at a time; "
        f"at most {page.amount(plan.memory)} of memory"
    ]


@contextmanager
def _going_on(work: Path, *, fresh: bool) -> Iterator[None]:
    """Say what is kept where a run ends before its time."""
    if fresh and work.is_dir():
        shutil.rmtree(work)

    def kept() -> str:
        return f"; the same command goes on from {work}" if work.is_dir() else ""

    try:
        with telling_what_is_kept(kept):
            yield
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --fresh starts over") from error
    except KdcodeError:
        if kept():
            click.echo(shown(f"what is done is kept{kept()}"), err=True)
        raise
