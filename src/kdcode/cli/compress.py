"""`kdcode compress`: a table in any format to a .kdc file of a promised size."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.checkpoints import is_result_of, place_of_checkpoint, resumable
from kdcode.cli.compress_ranks import Asked, learned_on_ranks, planned_on_ranks, ranks_with_one_voice, read_rows
from kdcode.cli.files import STANDARD, check_target, is_of_parts, output_file, read_table
from kdcode.cli.flags import FlaggedCommand, changed_flags, dashed, example, is_given, naming_flags, take
from kdcode.cli.learn import learn, require_learning
from kdcode.cli.learner_flags import compress_sections, take_options
from kdcode.cli.plan import GOALS, for_a_table, take_goal
from kdcode.cli.shell import command_line
from kdcode.cli.streamed import PartedTable, compress_streamed, parted_table, with_sample_flags
from kdcode.cli.torchrun import has_others, own_device
from kdcode.errors import (
    OptionError,
    StorageError,
)
from kdcode.printable import is_safe, shown
from kdcode.progress_bar import clock
from kdcode.provenance import MEASURED

if TYPE_CHECKING:
    from kdcode.codec import Sizes
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint, Goal, Planned, TableShard
    from kdcode.options import CompressOptions

_CODE_FLAGS = ("codebook_size", "code_length", "composition", "codebook_dtype", "effort", "seed")
"""The flags of codes and learning that most runs need."""
_BAD_COSINE, _FAR_FROM_MEAN = 0.8, 4.0
"""The cosine of the worst row, and the loss of the worst hundredth in mean losses, from which advice is given."""
USUAL_SIZE = "10x"
"""The size where none is given."""


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
@with_sample_flags
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
    sample: int | None,
    memory: str | None,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Compress the table in IN and save it as the .kdc file OUT.

    With --size (10x by default), --bits or --max-error settings are chosen as by `kdcode plan`, or by you: -K, -D and
    so on. Ctrl-C saves a checkpoint, and the same command resumes. IN may be a folder, pattern or URL of parts; if
    larger than memory, a sample is learned from. A dash is standard input or output.
    """
    from kdcode.io import ReadOptions

    options, reading, goal = take_options(values), take(ReadOptions, values), take_goal(values)
    if goal is not None:
        refuse_what_is_planned()
    elif says_nothing_of_codes(options):
        goal = _usual_goal(quiet=quiet)
    asked = Asked(source, reading, weights, options, goal, own_device(device), threads, quiet)
    if has_others():
        if sample is not None or memory is not None:
            raise OptionError("--sample and --memory are for one process; ranks share all rows among them")
        _compress_on_ranks(asked, target, format_name, fresh=fresh, force=force, as_json=as_json)
        return
    kept = place_of_checkpoint(target)
    is_tidying_up = not fresh and kept is not None and is_result_of(target, kept)
    check_target(target, force=force or is_tidying_up, inputs=[source, weights, reading.symbols])
    if target == STANDARD:
        _check_standard_output(as_json=as_json)
    require_learning(options, device, quiet=quiet)
    parted = parted_table(source, format_name, reading, options, memory, sample)
    if parted is not None and parted.plan.is_streamed:
        _compress_streamed(asked, parted, target, fresh=fresh, as_json=as_json)
    else:
        _compress_in_memory(asked, target, format_name, kept, fresh=fresh, as_json=as_json)


def _compress_in_memory(
    asked: Asked, target: str, format_name: str | None, kept: Path | None, *, fresh: bool, as_json: bool
) -> None:
    """The command for a table that is learned from as a whole."""
    from kdcode.learning import TableShard
    from kdcode.storage import save

    device, threads, quiet = asked.device, asked.threads, asked.quiet
    shard = TableShard.whole(read_table(asked.source, format_name, asked.reading, asked.weights, quiet=quiet))
    with output_file(target) as path, resumable(target, kept, fresh=fresh) as checkpoint:
        plan = _planned(shard, asked, checkpoint)
        promised = _promise(shard, plan.options, quiet=quiet)
        coded = learn(shard, plan, quiet=quiet, checkpoint=checkpoint, device=device, threads=threads)
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
        _suggest(coded, asked, target, format_flags)


def _compress_streamed(asked: Asked, table: PartedTable, target: str, *, fresh: bool, as_json: bool) -> None:
    """The command for a table that is larger than memory, or of which a sample is learned from."""
    from kdcode.storage import load

    if asked.weights is not None:
        raise OptionError("--weights is for tables that are learned from as a whole")
    settings = {"device": asked.device, "threads": asked.threads, "progress": not asked.quiet}
    result, lines = compress_streamed(table, target, asked.options, asked.goal, settings, fresh=fresh)
    if as_json:
        page.print_json(result)
        return
    if target != STANDARD or not asked.quiet:
        page.echo(lines, err=target == STANDARD)
    if target != STANDARD:
        _suggest(load(target), asked, target, [])


def _compress_on_ranks(
    asked: Asked, target: str, format_name: str | None, *, fresh: bool, force: bool, as_json: bool
) -> None:
    """The command on one of several ranks: the first checks OUT, writes it, and speaks for all."""
    from kdcode.storage import save

    with ranks_with_one_voice(asked, target, format_name) as ranks, ExitStack() as stack:
        kept = place_of_checkpoint(target)
        with ranks.together():
            if ranks.is_first:
                is_tidying_up = not fresh and kept is not None and is_result_of(target, kept)
                inputs = [asked.source, asked.weights, asked.reading.symbols]
                check_target(target, force=force or is_tidying_up, inputs=inputs)
        shard = read_rows(asked, ranks)
        with ranks.together():
            checkpoint = stack.enter_context(resumable(target, kept, fresh=fresh, hold=ranks.is_first))
        plan = planned_on_ranks(asked, shard, checkpoint)
        with ranks.together():
            promised = _promise(shard, plan.options, quiet=asked.quiet) if ranks.is_first else None
        coded = learned_on_ranks(asked, shard, plan, checkpoint)
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
    _suggest(coded, asked, target, [])


def _check_promise(coded: CodedTable, target: str, promised: Sizes) -> None:
    kept = coded.sizes.total <= promised.total if coded.codewords is None else coded.sizes == promised
    if not kept:
        raise StorageError(f"{target}: holds {coded.sizes.as_dict()} where {promised.as_dict()} were promised")


def _check_standard_output(*, as_json: bool) -> None:
    """Refuse to write a file where people, or the JSON result, would be."""
    if as_json:
        raise click.UsageError("--json and OUT - both write to standard output; name a file for OUT")
    if sys.stdout.isatty():
        raise OptionError("-: a .kdc file is not for a terminal; pipe it on, as in `| ssh …`, or name a file")


def says_nothing_of_codes(options: CompressOptions) -> bool:
    """Whether neither a size nor anything that a plan would choose was asked for."""
    from kdcode.learning.planning.candidates import PLANNED

    return options.learner_name == "additive" and not any(is_given(name) for name in (*PLANNED, "learner"))


def _usual_goal(*, quiet: bool) -> Goal:
    """The goal where none is given, which is said."""
    from kdcode.learning import Goal

    if not quiet:
        click.echo(f"no --size given: {USUAL_SIZE}, with the settings that lose least", err=True)
    return Goal(size=USUAL_SIZE)


def refuse_what_is_planned() -> None:
    """Refuse K, D and the like where a goal is given, from which they follow."""
    from kdcode.learning.planning.candidates import PLANNED

    goal = next(name for name in GOALS if is_given(name))
    for name in PLANNED:
        if is_given(name):
            raise click.UsageError(f"{dashed(name)} is chosen for {dashed(goal)}; leave one of the two out")


def _planned(shard: TableShard, asked: Asked, checkpoint: Checkpoint | None) -> Planned:
    """What is asked for, or recommended for the goal: by the checkpoint where it has that, else by a new plan."""
    from kdcode.learning import Planned, planned
    from kdcode.learning.run_settings import PlanSettings

    if asked.goal is None:
        return Planned(asked.options)
    settings = PlanSettings(not asked.quiet, asked.device, asked.threads)
    with naming_flags(OptionError):
        return planned(shard, asked.options, asked.goal, settings, checkpoint=checkpoint)


def _promise(table: TableShard, options: CompressOptions, *, quiet: bool) -> Sizes:
    """The sizes that the file will have, printed unless `quiet`."""
    from kdcode.options import promised_sizes

    with naming_flags(OptionError):
        promised = promised_sizes(table, options)
    if not quiet:
        shape, promise = f"{len(table):,} x {table.embedding_dim:,}", "at most" if options.row_bytes else "promised"
        heading = f"{shape} to {_setting(options)}; {promise}:"
        page.echo([heading, *page.size_rows(promised, len(table), table.embedding_dim)], err=True)
    return promised


def _setting(options: CompressOptions) -> str:
    if options.row_bytes is not None:
        return f"transform codes, {options.row_bytes:.1f} bytes for each row"
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
        "size": _kept_promise(coded.sizes.total, promised.total),
        **page.quality(result, coded),
        "learned in": clock(result["seconds"]),
    }
    if advice := _advice(result, coded):
        facts["short rows"] = advice
    title = "standard output" if result["file"] == STANDARD else shown(result["file"])
    sizes = page.size_rows(coded.sizes, len(coded), coded.embedding_dim, file_bytes)
    return [click.style(title, bold=True), *sizes, "", *(f"  {line}" for line in page.pairs(facts))]


def _advice(result: dict[str, Any], coded: CodedTable) -> str:
    """What to do where a squared error is small and short rows have lost their direction; nothing where all is well."""
    low, mean, least = (result.get(name, 1.0) for name in ("low_cosine", "mean_cosine", "least_cosine"))
    is_bad = least < _BAD_COSINE and 1 - low > _FAR_FROM_MEAN * (1 - mean)
    squared = coded.provenance.get("options", {}).get("loss") == "squared"
    return "--loss cosine keeps the directions of short rows, at a larger relative error" if is_bad and squared else ""


def _kept_promise(taken: int, promised: int) -> str:
    """How the size without the header compares with the promise: rows of transform codes differ in length."""
    exactly = "exactly as promised" if taken == promised else f"at most {page.amount(promised)} were promised"
    return f"{page.amount(taken)} without the header, {exactly}"


def _suggest(coded: CodedTable, asked: Asked, target: str, format_flags: list[str]) -> None:
    """Print what can be done next."""
    next_lines = _next_commands(coded, asked.source, target, [*format_flags, *changed_flags(asked.reading)])
    page.echo(["", "next", *(f"  {line}" for line in next_lines)])


def _next_commands(coded: CodedTable, source: str, target: str, reading: list[str]) -> list[str]:
    typed = [symbol for symbol in coded.symbols[:200] if symbol != STANDARD and "\0" not in symbol]
    words = (symbol for symbol in typed if symbol.isalpha() and len(symbol) > 3)
    symbols = [*words, *filter(is_safe, typed), *typed][:1]
    return [
        command_line("info", [target]),
        *(command_line("neighbors", [target, symbol]) for symbol in symbols),
        # Standard input is read only once, and `verify` reads one file.
        *([] if source == STANDARD or is_of_parts(source) else [command_line("verify", [target, source], reading)]),
    ]
