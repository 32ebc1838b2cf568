"""`kdcode verify`: a file checked against the format specification and against the table it was made from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from kdcode.cli import page
from kdcode.cli.files import read_table
from kdcode.cli.flags import FlaggedCommand, example, reading_sections, take


@click.command(
    "verify",
    cls=FlaggedCommand,
    sections=lambda: reading_sections("Reading ORIGINAL"),
    epilog=example("kdcode verify glove.kdc", "kdcode verify glove.kdc glove.txt"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("original", required=False, type=click.Path(exists=True))
@click.option("--format", "format_name", help="Format of ORIGINAL; by default found from its name and content.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Print no progress on stderr.")
def command(
    file: str,
    original: str | None,
    format_name: str | None,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of ReadOptions
) -> None:
    """Check every code and symbol of a .kdc FILE.

    The exit code is 1 if the file is invalid. With ORIGINAL, also check that the symbols are the same, and measure the
    error of the vectors.
    """
    from kdcode.formats import ReadOptions
    from kdcode.storage import verify

    reading = take(ReadOptions, values)
    table = None if original is None else read_table(original, format_name, reading, quiet=quiet)
    found = verify(file, table)
    if as_json:
        page.print_json({"file": file, "original": original, **asdict(found)})
        return
    overhead = page.amount(found.overhead_bytes)
    click.echo(f"{page.shown(file)}: valid; {page.amount(found.file_bytes)}, {overhead} of them header and metadata")
    if found.relative_error is not None:
        click.echo(f"same symbols as {page.shown(str(original))}; relative error {found.relative_error:.4f}")
