"""`kdcode plan`: which settings keep to a size or an error, and what they would come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import read_table, with_weights
from kdcode.cli.flags import FlaggedCommand, example, take
from kdcode.cli.learn import Limits, make_plan, require_learning
from kdcode.cli.progress import clock

if TYPE_CHECKING:
    from kdcode.learning import Candidate, Plan

LIMITS = (
    click.option("--size", metavar="SIZE", help="20x (times smaller than float32 vectors), 500KB of file, or bytes."),
    click.option("--bits", type=int, help="Bits of a code at most, whatever the codebook takes."),
    click.option("--max-error", type=float, help="Relative error not to be passed, at the smallest size."),
)
"""The flags that say how small; `compress` has them too."""

WEIGHTS = click.option(
    "--weights",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="How much rows count, such as how often symbols are used: lines of a symbol and a number.",
)


@click.command(
    "plan",
    cls=FlaggedCommand,
    flags_of={"Reading": "kdcode.formats:ReadOptions"},
    epilog=example("kdcode plan glove.txt --size 20x", "kdcode plan glove.txt --max-error 0.2 --effort best"),
)
@click.argument("source", metavar="IN", type=click.Path(exists=True))
@LIMITS[0]
@LIMITS[1]
@LIMITS[2]
@WEIGHTS
@click.option(
    "--effort",
    type=click.Choice(("fast", "normal", "best")),
    default="normal",
    show_default=True,
    help="How long learning would search.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample and the looks.")
@click.option("--format", "format_name", help="Format of IN; by default found from its name and content.")
@click.option("--device", default="cpu", show_default=True, help="Where to look, as torch names it.")
@click.option("--json", "as_json", is_flag=True, help="Print the candidates as JSON, the recommended one first.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    source: str,
    *,
    size: str | None,
    bits: int | None,
    max_error: float | None,
    weights: str | None,
    effort: str,
    seed: int,
    format_name: str | None,
    device: str,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the dataclass
) -> None:
    """Say what the table in IN would come to at a size: error, bytes and time of several settings.

    Bytes are exact. Errors and times are predicted, from very short runs on a sample of the rows. The setting with a
    star is the one that `kdcode compress` with the same size takes.
    """
    from kdcode.formats import ReadOptions
    from kdcode.options import CompressOptions

    reading = take(ReadOptions, values)
    if sum(given is not None for given in (size, bits, max_error)) != 1:
        raise click.UsageError("say how small: one of --size, --bits and --max-error")
    require_learning(device)
    options = CompressOptions(effort=effort, seed=seed)
    table = with_weights(read_table(source, format_name, reading, quiet=quiet), weights)
    found = make_plan(table, options, Limits(size, bits, max_error), quiet=quiet, device=device)
    if as_json:
        page.print_json([candidate.as_dict() for candidate in found.candidates])
        return
    page.echo([f"{len(table):,} x {table.embedding_dim:,} within {found.limit}", *plan_lines(found)])


def plan_lines(found: Plan) -> list[str]:
    """The candidates as aligned lines, a star before the recommended one."""
    head = ("", "composition", "K", "D", "numbers", "codes", "codebook", "vectors take", "smaller", "error", "time")
    rows = [head, *(_cells(candidate, number == 0) for number, candidate in enumerate(found.candidates))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    left = (0, 1, 4)
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(candidate: Candidate, recommended: bool) -> tuple[str, ...]:
    options, sizes = candidate.options, candidate.sizes
    composition = options.composition
    if options.codeword_dim or options.groups:
        composition += f", H {options.codeword_dim}" if options.codeword_dim else f", {options.groups} groups"
    if options.rotation:
        composition += ", turned"
    return (
        "*" if recommended else "",
        composition,
        str(options.codebook_size),
        str(options.code_length),
        options.numbers,
        page.amount(sizes.codes),
        page.amount(sizes.codebook + sizes.composition),
        page.amount(sizes.embedding),
        f"{candidate.ratio:.1f}x",
        f"{candidate.relative_error:.3f}",
        clock(candidate.seconds),
    )
