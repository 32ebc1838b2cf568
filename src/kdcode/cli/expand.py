"""`kdcode expand`: a .kdc file back to vectors, in any format that can be written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdcode.cli import page
from kdcode.cli.files import STANDARD, check_target, input_file, output_file
from kdcode.cli.flags import example
from kdcode.errors import FormatError, OptionError
from kdcode.printable import shown
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable


@click.command(
    "expand",
    epilog=example("kdcode expand glove.kdc glove-again.txt", "kdcode expand glove.kdc - --format csv | head -n 3"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(allow_dash=True))
@click.option(
    "--format",
    "format_name",
    help="Format of OUT; by default detected from its name, or GloVe text for standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT, and the file of its symbols, if they exist.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(file: str, target: str, format_name: str | None, force: bool, quiet: bool) -> None:
    """Decode a .kdc FILE and write its vectors to OUT.

    `kdcode formats` lists the available formats. A dash stands for standard input or output.
    """
    from kdcode.io import write, written_files
    from kdcode.storage import load

    is_standard = target == STANDARD
    format_name = format_name or ("glove" if is_standard else None)
    check_target(target, *written_files(target, format=format_name)[1:], force=force, inputs=[file])
    coded = load(input_file(file))
    if is_standard:
        _check_standard_output(coded, str(format_name))
    with output_file(target) as path:
        with progress("writing", quiet=quiet) as advance:
            write(coded, path, format=format_name, on_progress=advance)
        size = page.amount(Path(path).stat().st_size)
    name = "standard output" if is_standard else shown(target)
    if not (is_standard and quiet):
        click.echo(f"{name}  {len(coded):,} x {coded.embedding_dim:,}, {size}", err=is_standard)


def _check_standard_output(coded: CodedTable, format_name: str) -> None:
    """Refuse what standard output cannot take: a second file, and bytes that are no text where people look at it."""
    from kdcode.io import FORMATS
    from kdcode.symbols import RowNumbers

    chosen = FORMATS[format_name]
    if chosen.symbols_beside is not None and not isinstance(coded.symbols, RowNumbers):
        raise FormatError(
            "-: this format puts the symbols in a second file, which standard output cannot take; "
            "choose another format= or name a file"
        )
    if sys.stdout.isatty() and not chosen.is_text:
        raise OptionError(f"-: the format {format_name!r} is not for a terminal; pipe it on, or name a file")
