"""`kdcode expand`: a .kdc file back to vectors, in any format that can be written."""

from __future__ import annotations

from pathlib import Path

import click

from kdcode.cli import page
from kdcode.cli.files import STANDARD, check_target, input_file, output_file
from kdcode.cli.flags import example
from kdcode.progress_bar import progress


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
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(file: str, target: str, format_name: str | None, force: bool, quiet: bool) -> None:
    """Decode a .kdc FILE and write its vectors to OUT.

    `kdcode formats` lists the available formats. A dash stands for standard input or output.
    """
    from kdcode.formats import write
    from kdcode.storage import load

    check_target(target, source=file, force=force)
    is_standard = target == STANDARD
    coded = load(input_file(file))
    with output_file(target) as path:
        with progress("writing", quiet=quiet) as advance:
            write(coded, path, format=format_name or ("glove" if is_standard else None), on_progress=advance)
        size = page.amount(Path(path).stat().st_size)
    name = "standard output" if is_standard else page.shown(target)
    if not (is_standard and quiet):
        click.echo(f"{name}  {len(coded):,} x {coded.embedding_dim:,}, {size}", err=is_standard)
