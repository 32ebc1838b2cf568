"""`kdcode plan`: which settings keep to a size or an error, and what they would come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import TablePath, read_table
from kdcode.cli.flags import FlaggedCommand, Sections, example, flags_for, naming_flags, reading_sections, take
from kdcode.cli.learn import require_learning
from kdcode.errors import OptionError
from kdcode.progress_bar import clock
from kdcode.wording import percent

if TYPE_CHECKING:
    from kdcode.learning import Candidate, Goal, Plan
    from kdcode.learning.run_settings import PlanSettings
    from kdcode.options import CompressOptions
    from kdcode.table import VectorTable

GOALS = ("size", "bits", "max_error")

_SHARED_FLAGS = (
    click.argument("source", metavar="IN", type=TablePath()),
    click.option(
        "--size",
        metavar="SIZE",
        help="Target size: 20x (times smaller than float32 vectors) or a file size like 500KB.",
    ),
    click.option(
        "--bits", type=int, help="Target size: bits per code at most, including its row scale; the codebook is extra."
    ),
    click.option("--max-error", type=float, help="Find the smallest size whose relative error stays below this."),
    click.option(
        "--weights",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        help="Importance of each row, such as word frequencies: a symbol and a number per line.",
    ),
    click.option("--format", "format_name", help="Format of IN; by default detected from its name and content."),
    click.option(
        "--device", default="cpu", show_default=True, help="Device to learn on, as PyTorch names it: cpu, cuda, cuda:1."
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        help="Number of CPU threads; by default all that this process may use. Results do not depend on it.",
    ),
)


def for_a_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what `plan` and `compress` both take: a table, how small it should be, and where to learn."""
    return reduce(lambda decorated, flag: flag(decorated), reversed(_SHARED_FLAGS), command)


def take_goal(values: dict[str, Any]) -> Goal | None:
    """Remove the goal from the values that click parsed: the one that was asked for, or None.

    Raises:
        click.UsageError: more than one is given, or one that cannot be read.
    """
    given = {name: value for name in GOALS if (value := values.pop(name)) is not None}
    if len(given) > 1:
        raise click.UsageError("give one of --size, --bits and --max-error, not several")
    if not given:
        return None
    from kdcode.learning import Goal

    with naming_flags():
        goal = Goal(**given)
        if goal.max_error is None:
            _ = goal.limit  # refuses a size that cannot be read
    return goal


def _sections() -> Sections:
    from kdcode.options import AdditiveOptions, CompressOptions

    return {
        "Learning": [*flags_for(AdditiveOptions), *flags_for(CompressOptions, only=["codewords", "seed"])],
        **reading_sections(),
    }


@click.command(
    "plan",
    cls=FlaggedCommand,
    sections=_sections,
    epilog=example(
        "kdcode plan glove.txt",
        "kdcode plan glove.txt --size 20x",
        "kdcode plan glove.txt --max-error 0.2 --effort best",
    ),
)
@for_a_table
@click.option("--json", "as_json", is_flag=True, help="Print the candidates as JSON, the recommended one first.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    source: str,
    *,
    weights: str | None,
    format_name: str | None,
    device: str,
    threads: int | None,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Predict error, size and time for a target size, or for several sizes where none is given.

    Several settings are tried for the table in IN. Sizes are exact; errors and times are estimated from short runs on a
    sample of the rows. The setting marked with a star is the one that `kdcode compress` uses for the same target. The
    error marked unseen is that of rows which are not in IN, with a codebook learned from IN for such rows.
    """
    from kdcode.io import ReadOptions
    from kdcode.learning.run_settings import PlanSettings
    from kdcode.options import CompressOptions

    reading, goal = take(ReadOptions, values), take_goal(values)
    with naming_flags():
        options = CompressOptions.of(**values)
    require_learning(options, device, quiet=quiet)
    from kdcode.learning import plan

    table = read_table(source, format_name, reading, weights, quiet=quiet)
    if goal is None:
        _print_curve(table, options, PlanSettings(not quiet, device, threads), as_json=as_json)
        return
    with naming_flags(OptionError):
        found = plan(table, **asdict(goal), options=options, progress=not quiet, device=device, threads=threads)
    if as_json:
        page.print_json([candidate.as_dict() for candidate in found.candidates])
        return
    page.echo([f"{len(table):,} x {table.embedding_dim:,} within {found.limit}", *plan_lines(found)])


def _print_curve(table: VectorTable, options: CompressOptions, settings: PlanSettings, *, as_json: bool) -> None:
    """What is to be expected at 5x to 40x."""
    from kdcode.learning.planning.curve import plan_curve

    with naming_flags(OptionError):
        points = plan_curve(table, options, settings)
    if as_json:
        page.print_json([point._asdict() for point in points])
        return
    head = ("size", "vectors take", "error", "neighbours kept", "cosine of 1 in 100", "lookup", "time")
    rows = [
        (
            f"{point.times}x",
            page.amount(point.nbytes),
            f"{point.relative_error:.4f}",
            percent(point.recall_at_10),
            f"{point.low_cosine:.3f}",
            f"{1e6 * point.lookup_seconds:.2f} µs",
            clock(point.seconds),
        )
        for point in points
    ]
    page.echo(
        [
            f"{len(table):,} x {table.embedding_dim:,}, from a sample of its rows",
            *page.columns([head, *rows], right=range(1, len(head))),
            "",
            "error: squared error over variance; neighbours kept: of the 10 nearest in the sample;",
            "cosine of 1 in 100: below it lies one row in 100; lookup: of a row, of many at a time, on one thread",
        ]
    )


def plan_lines(found: Plan) -> list[str]:
    """The candidates as aligned lines, a star before the recommended one."""
    head = (
        "",
        "composition",
        "K",
        "D",
        "dtype",
        "codes",
        "codebook",
        "vectors take",
        "smaller",
        "error",
        "unseen",
        "time",
    )
    rows = [head, *(_cells(candidate, number == 0) for number, candidate in enumerate(found.candidates))]
    return page.columns(rows, right=[column for column in range(len(head)) if column not in (0, 1, 4)])


def _shape(options: CompressOptions) -> tuple[str, str, str]:
    """K, D and the type of codewords; transform codes have none of them."""
    if options.row_bytes is not None:
        return "-", "-", "-"
    return str(options.codebook_size), str(options.code_length), options.codebook_dtype


def _cells(candidate: Candidate, recommended: bool) -> tuple[str, ...]:
    options, sizes = candidate.options, candidate.sizes
    return (
        "*" if recommended else "",
        page.composition(options),
        *_shape(options),
        page.amount(sizes.codes),
        page.amount(sizes.codebook + sizes.composition),
        page.amount(sizes.embedding),
        f"{candidate.ratio:.1f}x",
        f"{candidate.relative_error:.3f}",
        f"{candidate.unseen_error:.3f}",
        clock(candidate.seconds),
    )
