"""`torchrun … -m kdcode compress`: the same command on several ranks, each with rows of its own, and one voice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kdcode.cli.files import STANDARD
from kdcode.cli.flags import naming_flags
from kdcode.cli.learn import learn, require_learning, require_torch
from kdcode.cli.torchrun import is_another_rank
from kdcode.errors import KdcodeError, LostRankError, OptionError
from kdcode.printable import shown
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.io import ReadOptions
    from kdcode.learning import Checkpoint, Goal, Planned, Ranks, TableShard
    from kdcode.options import CompressOptions

_FAILED, _INTERRUPTED = 1, 130


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Args:
        source: IN.
        reading: how it is read.
        weights: the file of row weights.
        options: of compression.
        goal: what they are planned for, or None.
        device: where to learn.
        threads: of each rank.
        quiet: whether no progress is shown.
    """

    source: str
    reading: ReadOptions
    weights: str | None
    options: CompressOptions
    goal: Goal | None
    device: str
    threads: int | None
    quiet: bool


@contextmanager
def ranks_with_one_voice(asked: Asked, target: str, format_name: str | None) -> Iterator[Ranks]:
    """Meet the other ranks; where one of them fails, all end, and one says why.

    Raises:
        OptionError: what is asked for cannot be shared among ranks.
    """
    _refuse_what_cannot_be_shared(asked, target, format_name)
    require_torch("torchrun", quiet=asked.quiet or is_another_rank())
    require_learning(asked.options, asked.device, quiet=True)
    from kdcode.learning import joined_ranks

    with joined_ranks(asked.device) as ranks:
        try:
            yield ranks
        except LostRankError as error:  # whoever notices first says so, since rank 0 may be the one that is lost
            if ranks.is_first_to_tell():
                click.echo(f"{click.style('error:', fg='red', bold=True)} {shown(str(error))}", file=sys.__stderr__)
            raise click.exceptions.Exit(_FAILED) from error
        except (KdcodeError, OSError) as error:
            if ranks.is_first:
                raise
            raise click.exceptions.Exit(_FAILED) from error
        except KeyboardInterrupt as interruption:
            if ranks.is_first:
                raise
            raise click.exceptions.Exit(_INTERRUPTED) from interruption


def read_rows(asked: Asked, ranks: Ranks) -> TableShard:
    """The rows of this rank; rank 0 shows how far it is."""
    from kdcode.io import open_reader
    from kdcode.learning import read_shard

    with ranks.together():
        source = open_reader(asked.source, asked.reading)
    with progress("reading", quiet=asked.quiet or not ranks.is_first) as advance, naming_flags(OptionError):
        return read_shard(source, ranks, asked.weights, advance)


def planned_on_ranks(asked: Asked, shard: TableShard, checkpoint: Checkpoint | None) -> Planned:
    """What a plan recommends for the goal, on all ranks."""
    from kdcode.learning import Planned
    from kdcode.learning.compression import plan_shard
    from kdcode.learning.run_settings import RunSettings

    if asked.goal is None:
        return Planned(asked.options)
    settings = RunSettings(not asked.quiet, asked.device, asked.threads, checkpoint)
    with naming_flags(OptionError):
        return plan_shard(shard, asked.options, asked.goal, settings)


def learned_on_ranks(
    asked: Asked, shard: TableShard, plan: Planned, checkpoint: Checkpoint | None
) -> CodedTable | None:
    """The coded table on rank 0, which shows progress; None on others."""
    from kdcode.learning.compression import compress_planned
    from kdcode.learning.run_settings import RunSettings

    device, threads = asked.device, asked.threads
    if shard.share.ranks.is_first:
        return learn(shard, plan, quiet=asked.quiet, checkpoint=checkpoint, device=device, threads=threads)
    return compress_planned(shard, plan, RunSettings(False, device, threads, checkpoint))


def _refuse_what_cannot_be_shared(asked: Asked, target: str, format_name: str | None) -> None:
    if STANDARD in (asked.source, target, asked.weights):
        raise OptionError("-: standard input and output cannot be shared among ranks; name a file")
    if format_name is not None:
        raise OptionError(
            "several ranks read npy, safetensors and Parquet files, and tell them apart; leave --format out"
        )
