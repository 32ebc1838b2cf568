"""`kdcode compare`: several compressed copies of a table, and baselines at the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import TablePath, check_target, read_rows
from kdcode.cli.flags import FlaggedCommand, example, naming_flags, reading_sections, take
from kdcode.printable import shown
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.comparison import SizeComparison


@click.command(
    "compare",
    cls=FlaggedCommand,
    sections=lambda: reading_sections("Reading tables that are not .kdc files"),
    epilog=example(
        "kdcode compare glove.txt 20x.kdc 40x.kdc",
        "kdcode compare glove.txt 20x.kdc 40x.kdc --baselines int8,int4,pq --figure sizes.svg",
    ),
)
@click.argument("original", type=TablePath())
@click.argument("copies", nargs=-1, required=True, type=TablePath())
@click.option(
    "--baselines",
    default="",
    metavar="NAMES",
    help="Make these at the bytes of each file, with commas between: int8 and int4 (rows of integers with a scale "
    "each, of as many principal directions as fit), pq (product quantization by k-means).",
)
@click.option("--figure", metavar="FILE", help="Draw error and recall against bytes to an .svg, .png or .pdf file.")
@click.option("--force", is_flag=True, help="Replace FILE of --figure if it exists.")
@click.option("--format", "format_name", help="Format of ORIGINAL; by default detected from its name and content.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    original: str,
    copies: tuple[str, ...],
    *,
    baselines: str,
    figure: str | None,
    force: bool,
    format_name: str | None,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of ReadOptions
) -> None:
    """Compare several compressed COPIES of a table with ORIGINAL: error and recall against bytes.

    Bytes are those of codes and codebooks; symbols, which all methods need alike, are left out. "Limit" is the
    rate-distortion limit: the relative error that no code of as many bytes can fall below where rows are Gaussian with
    the covariance of ORIGINAL. Tables that are not Gaussian can have a lower one.
    """
    from kdcode.comparison import compare, draw
    from kdcode.comparison.comparing import check_baselines
    from kdcode.comparison.figure import check_figure
    from kdcode.io import ReadOptions

    reading = take(ReadOptions, values)
    names = [name.strip() for name in baselines.split(",") if name.strip()]
    with naming_flags():
        check_baselines(names)
    if figure is not None:
        check_figure(figure)
        check_target(figure, force=force, inputs=[original, *copies])
    table = read_rows(original, reading, format_name, quiet=quiet)
    tables = {shown(path): read_rows(path, reading, quiet=quiet) for path in copies}
    with progress("measuring", quiet=quiet, with_time_left=False) as advance:
        found = compare(table, tables, names, on_progress=advance)
    if figure is not None:
        draw(found, figure)
    if as_json:
        page.print_json({"original": original, **found.as_dict(), "figure": figure})
        return
    page.echo(_lines(found))
    if figure is not None:
        click.echo(f"\nthe figure is in {shown(figure)}")


def _lines(found: SizeComparison) -> list[str]:
    """The table: every copy by its bytes, the largest first."""
    rows = [["", "bytes", "smaller", "error", "limit", "cosine", "recall@10", ""]]
    rows.append(["original", f"{found.original_bytes:,}", "1.0x", *["0.0000"] * 2, *["1.0000"] * 2, "as float32"])
    for one in sorted(found.contenders, key=lambda one: -one.bytes):
        lost = one.lost
        numbers = (lost.relative_error, one.limit, lost.mean_cosine, lost.recall_at_10)
        left = lost.match.only_in_original
        note = one.setting or (f"{left:,} symbols are missing" if left else "")
        smaller = f"{found.original_bytes / one.bytes:.1f}x"
        rows.append([one.name, f"{one.bytes:,}", smaller, *(f"{number:.4f}" for number in numbers), note])
    lines = page.columns(rows, right=range(1, 7))
    return [*lines, *(f"{name}: nothing fits into {size:,} B" for name, size in found.left_out)]
