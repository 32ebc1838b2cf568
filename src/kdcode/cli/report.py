"""`kdcode report`: one page that shows what is left of a table, with an explorer of its codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import (
    STANDARD,
    TablePath,
    check_target,
    input_file,
    is_of_parts,
    output_file,
    read_rows,
    spoken,
)
from kdcode.cli.flags import FlaggedCommand, changed_flags, dashed, example, reading_sections, take
from kdcode.cli.shell import command_line
from kdcode.errors import OptionError
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.io import ReadOptions
    from kdcode.report import Report
    from kdcode.table import VectorTable

_ROWS = 10_000


@click.command(
    "report",
    cls=FlaggedCommand,
    sections=lambda: reading_sections("Reading tables that are not .kdc files"),
    epilog=example(
        "kdcode report glove.txt glove.kdc -o report.html",
        "kdcode report glove.txt glove.kdc --weights rank --rows 20000 -o weighted.html",
    ),
)
@click.argument("original", type=TablePath())
@click.argument("compressed", type=TablePath())
@click.option("-o", "--out", "target", type=click.Path(), default="report.html", show_default=True, help="The page.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=_ROWS,
    show_default=True,
    help="Symbols in the explorer, at most: the first ones or, with --weights, those that weigh most.",
)
@click.option(
    "--weights",
    metavar="FILE|rank",
    help="Measure by weight as well: a file with a weight for each symbol or row, or `rank` for 1/rank in the order of "
    "ORIGINAL.",
)
@click.option("--format", "format_name", help="Format of ORIGINAL; by default detected from its name and content.")
@click.option("--force", is_flag=True, help="Overwrite the page if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    original: str,
    compressed: str,
    *,
    target: str,
    rows: int,
    weights: str | None,
    format_name: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of ReadOptions
) -> None:
    """Write a page about COMPRESSED beside ORIGINAL: one HTML file.

    It has the verdict, sizes, quality, charts, the worst rows and how the table was made, and an explorer: look up a
    symbol, see its code and its neighbours before and after, walk the tree of codes. It needs no network and can be
    sent around. COMPRESSED is a .kdc file, or a table in any other format that kdcode reads.
    """
    from kdcode.evaluation.row_losses import RANK
    from kdcode.io import ReadOptions
    from kdcode.io.row_weights import RowWeights
    from kdcode.report import About, make_report

    if target == STANDARD and as_json:
        raise click.UsageError("--json prints to standard output; name a file for the page")
    reading = take(ReadOptions, values)
    check_target(target, force=force, inputs=[original, compressed, weights])
    by_row = weights if weights in (None, RANK) else RowWeights.read(input_file(str(weights)))
    file = compressed if is_of_parts(compressed) else input_file(compressed)
    copy = read_rows(file, reading, quiet=quiet)
    table = read_rows(original, reading, format_name, quiet=quiet)
    counts = by_row.of_table(table.symbols) if isinstance(by_row, RowWeights) else by_row
    about = About(
        original=_name(original),
        compressed=_name(compressed),
        file_bytes=Path(file).stat().st_size if Path(file).is_file() else None,
        command=_own_command([original, compressed], target, rows, weights, format_name, reading),
        made_by=_made_by(copy, original, compressed),
    )
    with progress("measuring", quiet=quiet) as advance:
        made = make_report(table, copy, counts, about=about, rows=rows, on_progress=advance)
    with output_file(target) as path:
        size = made.write(path)
    _tell(made, target, size, as_json=as_json)


def _tell(made: Report, target: str, size: int, *, as_json: bool) -> None:
    if as_json:
        facts = {"page": target, "page_bytes": size, "verdict": made.verdict, "symbols_in_page": made.explored}
        page.print_json({**facts, **made.measured.found.as_dict()})
        return
    click.echo(made.verdict, err=target == STANDARD)
    if target != STANDARD:
        click.echo(f"{spoken(target)}  {page.amount(size)}, open it in a browser")


def _name(given: str) -> str:
    """What a table is called in the page: its name without its folder."""
    return spoken(given) if given == STANDARD or "://" in given else spoken(Path(given).name or given)


def _own_command(
    tables: list[str], target: str, rows: int, weights: str | None, format_name: str | None, reading: ReadOptions
) -> str:
    given = {"--weights": weights, "--format": format_name, "--rows": None if rows == _ROWS else str(rows)}
    flags = [word for flag, value in given.items() if value is not None for word in (flag, value)]
    return command_line("report", tables, ["-o", target, *flags, *changed_flags(reading)])


def _made_by(copy: CodedTable | VectorTable, original: str, target: str) -> str | None:
    """The command that learns such codes; None where the file does not say, or where it was made in several steps."""
    from kdcode.options import CompressOptions

    provenance = getattr(copy, "provenance", {})
    told = provenance.get("options")
    if not isinstance(told, dict) or {"encoded", "unseen_error", "taken_from", "calibrated"} & set(provenance):
        return None
    try:
        options = CompressOptions.of(**told)
        default = CompressOptions.of(learner=options.learning.name, composition=options.composition).as_dict()
    except (OptionError, TypeError):  # provenance is text of strangers
        return None
    changed = {name: value for name, value in options.as_dict().items() if value != default[name] and value is not None}
    if options.composition != "linear":
        changed["composition"] = options.composition
    if (
        options.learner is not None
        and options.learning.name != CompressOptions.of(composition=options.composition).learning.name
    ):
        changed["learner"] = options.learning.name
    flags = [
        word
        for name, value in changed.items()
        for word in ([dashed(name)] if value is True else [dashed(name), str(value)])
    ]
    weights = ["--weights", "WEIGHTS"] if "weighted_error" in provenance else []
    return command_line("compress", [original, target], [*flags, *weights])
