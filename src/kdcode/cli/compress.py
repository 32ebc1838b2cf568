"""`kdcode compress`: a table in any format to a .kdc file of a promised size."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import check_target, read_table, with_weights
from kdcode.cli.flags import FlaggedCommand, example, given, take
from kdcode.cli.learn import Limits, learn, make_plan, require_learning
from kdcode.cli.plan import LIMITS, WEIGHTS
from kdcode.cli.progress import clock
from kdcode.errors import CheckpointError, StorageError

if TYPE_CHECKING:
    from kdcode.budget import Sizes
    from kdcode.coded import CodedTable
    from kdcode.learning import Checkpoint
    from kdcode.options import CompressOptions
    from kdcode.table import VectorTable


@click.command(
    "compress",
    cls=FlaggedCommand,
    flags_of={"Codes and learning": "kdcode.options:CompressOptions", "Reading": "kdcode.formats:ReadOptions"},
    epilog=example(
        "kdcode compress glove.txt glove.kdc --size 20x", "kdcode compress glove.txt small.kdc -K 16 -D 8 --seed 1"
    ),
)
@click.argument("source", metavar="IN", type=click.Path(exists=True))
@click.argument("target", metavar="OUT", type=click.Path())
@LIMITS[0]
@LIMITS[1]
@LIMITS[2]
@WEIGHTS
@click.option("--format", "format_name", help="Format of IN; by default found from its name and content.")
@click.option(
    "--device", default="cpu", show_default=True, help="Where to learn, as torch names it: cpu, cuda, cuda:1."
)
@click.option("--fresh", is_flag=True, help="Start over where a checkpoint of an earlier run exists.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress and no promise on stderr.")
def command(
    source: str,
    target: str,
    *,
    size: str | None,
    bits: int | None,
    max_error: float | None,
    weights: str | None,
    format_name: str | None,
    device: str,
    fresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the two dataclasses
) -> None:
    """Compress the table in IN to the .kdc file OUT.

    With --size, --bits or --max-error the codes are chosen as `kdcode plan` does; otherwise by -K, -D and the rest.
    The size of OUT is told before learning starts. Ctrl-C saves a checkpoint beside OUT, and the same command goes on
    from there.
    """
    from kdcode.formats import ReadOptions
    from kdcode.options import CompressOptions, promised_sizes
    from kdcode.storage import save

    options, reading = take(CompressOptions, values), take(ReadOptions, values)
    planned = any(limit is not None for limit in (size, bits, max_error))
    if planned:
        _refuse_what_is_planned()
    check_target(target, source=source, force=force)
    require_learning(device)
    table = with_weights(read_table(source, format_name, reading, quiet=quiet), weights)
    if planned:
        limits = Limits(size, bits, max_error)
        options = make_plan(table, options, limits, quiet=quiet, device=device).recommended.options
    promised = promised_sizes(table, options)
    if not quiet:
        heading = f"{len(table):,} x {table.embedding_dim:,} to {_setting(options)}; "
        page.echo([heading + "promised:", *page.size_rows(promised, len(table), table.embedding_dim)], err=True)
    coded, checkpoint = _learn(table, options, target, device=device, fresh=fresh, quiet=quiet)
    file_bytes = save(coded, target)
    checkpoint.remove()
    if coded.sizes != promised:
        raise StorageError(f"{target}: holds {coded.sizes.as_dict()} where {promised.as_dict()} were promised")
    result = _result(table, coded, target, checkpoint.resumed_step)
    if as_json:
        page.print_json(result)
        return
    page.echo([click.style(page.shown(target), bold=True), *_lines(result, coded, promised, file_bytes)])
    page.echo(
        ["", "next", *(f"  {line}" for line in _next_commands(coded, source, target, format_name, given(reading)))]
    )


def _learn(
    table: VectorTable,
    options: CompressOptions,
    target: str,
    *,
    device: str,
    fresh: bool,
    quiet: bool,
) -> tuple[CodedTable, Checkpoint]:
    """The codes, and the checkpoint that can go once they are saved."""
    from kdcode.learning import Checkpoint

    kept = Path(f"{target}.checkpoint")
    if fresh:
        kept.unlink(missing_ok=True)
    checkpoint = Checkpoint(kept)
    try:
        return learn(table, options, quiet=quiet, device=device, checkpoint=checkpoint), checkpoint
    except CheckpointError as error:
        raise CheckpointError(f"{error}; --fresh starts over") from error
    except KeyboardInterrupt:
        where = f"; the same command goes on from {kept}" if kept.exists() else ""
        click.echo(f"interrupted{where}", err=True)
        raise click.exceptions.Exit(130) from None


def _refuse_what_is_planned() -> None:
    """Where a limit is given, K, D and the like follow from it."""
    from kdcode.learning.planning import PLANNED

    context = click.get_current_context()
    for param in context.command.get_params(context):
        given_by = context.get_parameter_source(param.name or "")
        if param.name in PLANNED and given_by is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} is chosen for the size; leave it or the size out")


def _setting(options: CompressOptions) -> str:
    words = f"K={options.codebook_size}, D={options.code_length}, {options.composition}, {options.numbers}"
    words += f", codewords of {options.codeword_dim}" if options.codeword_dim else ""
    return words + (f", {options.groups} groups" if options.groups else "")


def _result(table: VectorTable, coded: CodedTable, target: str, resumed_step: int) -> dict[str, Any]:
    from kdcode.evaluation import evaluate

    return {
        **page.describe(coded, target),
        **evaluate(table, coded).as_dict(),
        "seconds": coded.provenance.get("seconds"),
        "resumed_step": resumed_step,
    }


def _lines(result: dict[str, Any], coded: CodedTable, promised: Sizes, file_bytes: int) -> list[str]:
    facts = {
        "as promised": f"{page.amount(promised.total)} of codes, codewords and symbols, to the byte",
        "relative error": f"{result['relative_error']:.4f}   (0: a perfect copy, 1: the mean vector for every row)",
        "mean cosine": f"{result['mean_cosine']:.4f}",
        "learned in": clock(result["seconds"]) if result["seconds"] is not None else "unknown time",
    }
    sizes = page.size_rows(coded.sizes, len(coded), coded.embedding_dim, file_bytes)
    return [*sizes, *(f"  {line}" for line in page.pairs(facts))]


def _next_commands(
    coded: CodedTable, source: str, target: str, format_name: str | None, reading: list[str]
) -> list[str]:
    first = coded.symbols[:200]
    symbol = next((symbol for symbol in first if symbol.isalpha() and len(symbol) > 3), first[0])
    format_flags = ["--format", format_name] if format_name else []
    commands = (
        ["info", target],
        ["neighbors", target, symbol],
        ["verify", target, source, *format_flags, *reading],
    )
    return [shlex.join(["kdcode", *words]) for words in commands]
