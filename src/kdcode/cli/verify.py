"""`kdcode verify`: a file checked against the format specification and against the table it was made from."""

from __future__ import annotations

from typing import Any

import click

from kdcode.cli import page
from kdcode.cli.files import input_file, read_table, spoken
from kdcode.cli.flags import FlaggedCommand, example, reading_sections, take
from kdcode.errors import StorageError


@click.command(
    "verify",
    cls=FlaggedCommand,
    sections=lambda: reading_sections("Reading ORIGINAL"),
    epilog=example("kdcode verify glove.kdc", "kdcode verify glove.kdc glove.txt"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("original", required=False, type=click.Path(exists=True, allow_dash=True))
@click.option("--format", "format_name", help="Format of ORIGINAL; by default detected from its name and content.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    file: str,
    original: str | None,
    format_name: str | None,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of ReadOptions
) -> None:
    """Check every byte of a .kdc FILE: digests, codes, symbols.

    With ORIGINAL, the table that it was made from, also measure how much was lost, and compare that with what was
    recorded in the file; rows are matched by symbol. The exit code is 1 if the file is damaged or invalid, if its
    symbols are not those of ORIGINAL, or if its error is not the recorded one.
    """
    from kdcode.evaluation import verify
    from kdcode.io import ReadOptions
    from kdcode.storage import load

    reading = take(ReadOptions, values)
    table = None if original is None else read_table(original, format_name, reading, quiet=quiet)
    path = input_file(file)
    found = verify(path, table)
    if as_json:
        page.print_json({"file": file, "original": original, **found.as_dict()})
    else:
        sizes = f"{page.amount(found.file_bytes)}, of which {page.amount(found.overhead_bytes)} are header and digests"
        page.echo([f"{spoken(file)} is valid and undamaged: {sizes}"])
        if found.comparison is not None:
            page.echo(page.matched(found.comparison.match, spoken(file), spoken(str(original))))
        quality = page.quality(found.as_dict(), load(path))
        if found.is_as_recorded:
            quality["recorded error"] = f"{found.recorded_error:.4f}   (the same was measured when the file was made)"
        page.echo(f"  {line}" for line in page.pairs(quality))
    if found.is_as_recorded is False:
        raise StorageError(
            f"{spoken(file)}: its relative error against {spoken(str(original))} is {found.relative_error:.6g}, and "
            f"{found.recorded_error:.6g} was recorded when it was made; it was made from another table"
        )
    if found.comparison is not None and not found.is_complete:
        missing, added = found.comparison.match.only_in_original, found.comparison.match.only_in_copy
        raise StorageError(
            f"{spoken(file)}: its symbols are not those of {spoken(str(original))}: {missing:,} are missing, "
            f"{added:,} are added"
        )
