"""`kdcode compress`: a table in any format to a .kdc file of a promised size."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.compress_ranks import Asked, learned_on_ranks, planned_on_ranks, ranks_with_one_voice, read_rows
from kdcode.cli.files import STANDARD, check_target, output_file, read_table
from kdcode.cli.flags import FlaggedCommand, changed_flags, dashed, example, is_given, naming_flags, take
from kdcode.cli.learn import learn, require_learning
from kdcode.cli.learner_flags import compress_sections, take_options
from kdcode.cli.plan import GOALS, for_a_table, take_goal
from kdcode.cli.shell import command_line
from kdcode.cli.torchrun import has_others, own_device
from kdcode.errors import (
    CheckpointError,
    CheckpointInUseError,
    KdcodeError,
    LostRankError,
    OptionError,
    StorageError,
)
from kdcode.file_locks import remove_leftovers
from kdcode.files import beside
from kdcode.printable import is_safe, shown
from kdcode.progress_bar import clock
from kdcode.provenance import MEASURED

if TYPE_CHECKING:
    from kdcode.codec import Sizes
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, Goal, TableShard
    from kdcode.learning.run_settings import PlanSettings
    from kdcode.options import CompressOptions
    from kdcode.table import VectorTable

_CODE_FLAGS = ("codebook_size", "code_length", "composition", "codebook_dtype", "effort", "seed")
"""The flags of codes and learning that most runs need."""


@click.command(
    "compress",
    cls=FlaggedCommand,
    sections=compress_sections,
    short=(*GOALS, *_CODE_FLAGS, "force", "as_json", "quiet"),
    epilog=example(
        "kdcode compress glove.txt glove.kdc --size 20x", "kdcode compress glove.txt small.kdc -K 16 -D 8 --seed 1"
    ),
)
@for_a_table
@click.argument("target", metavar="OUT", type=click.Path(allow_dash=True))
@click.option("--fresh", is_flag=True, help="Start over instead of resuming from the checkpoint of an earlier run.")
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress and sizes on stderr.")
def command(
    source: str,
    target: str,
    *,
    weights: str | None,
    format_name: str | None,
    device: str,
    threads: int | None,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Compress the table in IN and save it as the .kdc file OUT.

    With --size, --bits or --max-error the settings are chosen as by `kdcode plan`; otherwise by -K, -D and so on.
    The exact size of OUT is printed before learning starts. Ctrl-C saves a checkpoint, and the same command resumes
    from it; so do SIGTERM and SIGHUP. A dash stands for standard input or output.
    """
    from kdcode.formats import ReadOptions
    from kdcode.storage import save

    options, reading, goal = take_options(values), take(ReadOptions, values), take_goal(values, quiet=quiet)
    if goal is not None:
        refuse_what_is_planned()
    if has_others():
        asked = Asked(source, reading, weights, options, goal, own_device(device), threads, quiet)
        _compress_on_ranks(asked, target, format_name, fresh=fresh, force=force, as_json=as_json)
        return
    kept = _place_of_checkpoint(target)
    is_tidying_up = not fresh and kept is not None and _is_result_of(target, kept)
    check_target(target, force=force or is_tidying_up, inputs=[source, weights, reading.symbols])
    if target == STANDARD:
        _check_standard_output(as_json=as_json)
    require_learning(device, quiet=quiet)
    from kdcode.learning.run_settings import PlanSettings

    table = read_table(source, format_name, reading, weights, quiet=quiet)
    with output_file(target) as path, _resumable(target, kept, fresh=fresh) as checkpoint:
        if goal is not None:
            options = _planned(table, options, goal, checkpoint, PlanSettings(not quiet, device, threads))
        promised = _promise(table, options, quiet=quiet)
        coded = learn(table, options, quiet=quiet, checkpoint=checkpoint, device=device, threads=threads)
        file_bytes = save(coded, path)
        result = {**_result(coded, path, checkpoint), "file": target}
        if checkpoint is not None:
            checkpoint.remove()
    _check_promise(coded, target, promised)
    if as_json:
        page.print_json(result)
        return
    if target != STANDARD or not quiet:
        page.echo(_lines(result, coded, promised, file_bytes), err=target == STANDARD)
    if target != STANDARD:
        format_flags = ["--format", format_name] if format_name else []
        next_lines = _next_commands(coded, source, target, [*format_flags, *changed_flags(reading)])
        page.echo(["", "next", *(f"  {line}" for line in next_lines)])


def _compress_on_ranks(
    asked: Asked, target: str, format_name: str | None, *, fresh: bool, force: bool, as_json: bool
) -> None:
    """The command on one of several ranks: the first checks OUT, writes it, and speaks for all."""
    from kdcode.storage import save

    with ranks_with_one_voice(asked, target, format_name) as ranks, ExitStack() as stack:
        kept = _place_of_checkpoint(target)
        with ranks.together():
            if ranks.is_first:
                is_tidying_up = not fresh and kept is not None and _is_result_of(target, kept)
                inputs = [asked.source, asked.weights, asked.reading.symbols]
                check_target(target, force=force or is_tidying_up, inputs=inputs)
        shard = read_rows(asked, ranks)
        with ranks.together():
            checkpoint = stack.enter_context(_resumable(target, kept, fresh=fresh, hold=ranks.is_first))
        options = planned_on_ranks(asked, shard, checkpoint)
        with ranks.together():
            promised = _promise(shard, options, quiet=asked.quiet) if ranks.is_first else None
        coded = learned_on_ranks(asked, shard, options, checkpoint)
        with ranks.together():
            if coded is None or promised is None or checkpoint is None:
                return
            file_bytes = save(coded, target)
            result = {**_result(coded, target, checkpoint), "file": target}
            checkpoint.remove()
            _check_promise(coded, target, promised)
    if as_json:
        page.print_json(result)
        return
    page.echo(_lines(result, coded, promised, file_bytes))
    next_lines = _next_commands(coded, asked.source, target, changed_flags(asked.reading))
    page.echo(["", "next", *(f"  {line}" for line in next_lines)])


def _check_promise(coded: CodedTable, target: str, promised: Sizes) -> None:
    if coded.sizes != promised:
        raise StorageError(f"{target}: holds {coded.sizes.as_dict()} where {promised.as_dict()} were promised")


def _check_standard_output(*, as_json: bool) -> None:
    """Refuse to write a file where people, or the JSON result, would be."""
    if as_json:
        raise click.UsageError("--json and OUT - both write to standard output; name a file for OUT")
    if sys.stdout.isatty():
        raise OptionError("-: a .kdc file is not for a terminal; pipe it on, as in `| ssh …`, or name a file")


def refuse_what_is_planned() -> None:
    """Refuse K, D and the like where a goal is given, from which they follow."""
    from kdcode.learning.planning import PLANNED

    goal = next(name for name in GOALS if is_given(name))
    for name in PLANNED:
        if is_given(name):
            raise click.UsageError(f"{dashed(name)} is chosen for {dashed(goal)}; leave one of the two out")


def _place_of_checkpoint(target: str) -> Path | None:
    """The file that a run for OUT saves itself in, beside OUT or the file that it links to; None for a dash.

    What runs that were killed have left in the same folder is removed.
    """
    if target == STANDARD:
        return None
    path = Path(target)
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    remove_leftovers(path.parent)
    return beside(path, path.name, ".checkpoint")


def _is_result_of(target: str, kept: Path) -> bool:
    """Whether OUT was written by the run whose checkpoint is there: it was killed before it could remove that.

    The run may then be repeated as if OUT were not there yet, and ends with the same bytes.
    """
    if not (Path(target).is_file() and kept.is_file()):
        return False
    from kdcode.learning import Checkpoint
    from kdcode.storage import load

    try:
        identity = Checkpoint(kept).identity()
        return identity is not None and load(target).provenance.get("fingerprint") == identity
    except KdcodeError:  # one of them is no such file
        return False


@contextmanager
def _resumable(target: str, kept: Path | None, *, fresh: bool, hold: bool = True) -> Iterator[Checkpoint | None]:
    """Gives the checkpoint, which no other run may use meanwhile; an interruption says that a run resumes from it.

    Args:
        target: OUT.
        kept: the file.
        fresh: whether it is removed first.
        hold: whether this process keeps it, and not another rank.
    """
    from kdcode.learning import Checkpoint, StoppedBySignal
    from kdcode.learning.interrupts import ending_by_signal

    if kept is None:
        yield None  # there is no place beside standard output
        return
    try:
        checkpoint = Checkpoint(kept)
        with ending_by_signal(), checkpoint.held() if hold else nullcontext():
            if fresh and hold:
                checkpoint.remove()
            yield checkpoint
    except CheckpointInUseError as error:
        raise CheckpointInUseError(
            f"{target}: another run is writing it: {error.who}; wait until it ends, or name another OUT"
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --fresh starts over") from error
    except LostRankError as error:
        raise LostRankError(f"{error}{_how_to_go_on(kept)}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(kept)) from None
    except StoppedBySignal as stopped:
        with suppress(OSError):  # the terminal may be gone
            click.echo(shown(f"{stopped}{_how_to_go_on(kept)}"), err=True)
        raise


def _how_to_go_on(kept: Path) -> str:
    return f"; the same command resumes from {kept}" if kept.exists() else ""


def _planned(
    table: VectorTable, options: CompressOptions, goal: Goal, checkpoint: Checkpoint | None, settings: PlanSettings
) -> CompressOptions:
    """The options for a goal: those of the checkpoint where it has them, else a new plan's."""
    from kdcode.learning import planned_options

    with naming_flags(OptionError):
        return planned_options(table, options, goal, settings, checkpoint=checkpoint)


def _promise(table: VectorTable | TableShard, options: CompressOptions, *, quiet: bool) -> Sizes:
    """The sizes that the file will have, printed unless `quiet`."""
    from kdcode.options import promised_sizes

    with naming_flags(OptionError):
        promised = promised_sizes(table, options)
    if not quiet:
        heading = f"{len(table):,} x {table.embedding_dim:,} to {_setting(options)}; promised:"
        page.echo([heading, *page.size_rows(promised, len(table), table.embedding_dim)], err=True)
    return promised


def _setting(options: CompressOptions) -> str:
    words = f"K={options.codebook_size}, D={options.code_length}, {page.composition(options)}, {options.codebook_dtype}"
    return words + (f", scales of {options.scale_bits} bits" if options.scale_bits else "")


def _result(coded: CodedTable, path: str, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """What `--json` prints: the file, and what was measured when it was learned."""
    return {
        **page.describe(coded, path),
        **{name: coded.provenance[name] for name in MEASURED if name in coded.provenance},
        "seconds": coded.learning_seconds,
        "resumed_step": 0 if checkpoint is None else checkpoint.resumed_step,
    }


def _lines(result: dict[str, Any], coded: CodedTable, promised: Sizes, file_bytes: int) -> list[str]:
    facts = {
        "size": f"{page.amount(promised.total)} without the header, exactly as promised",
        **page.quality(result, coded),
        "learned in": clock(result["seconds"]),
    }
    title = "standard output" if result["file"] == STANDARD else shown(result["file"])
    sizes = page.size_rows(coded.sizes, len(coded), coded.embedding_dim, file_bytes)
    return [click.style(title, bold=True), *sizes, "", *(f"  {line}" for line in page.pairs(facts))]


def _next_commands(coded: CodedTable, source: str, target: str, reading: list[str]) -> list[str]:
    typed = [symbol for symbol in coded.symbols[:200] if symbol != STANDARD and "\0" not in symbol]
    words = (symbol for symbol in typed if symbol.isalpha() and len(symbol) > 3)
    symbols = [*words, *filter(is_safe, typed), *typed][:1]
    return [
        command_line("info", [target]),
        *(command_line("neighbors", [target, symbol]) for symbol in symbols),
        *([] if source == STANDARD else [command_line("verify", [target, source], reading)]),  # it is read only once
    ]
