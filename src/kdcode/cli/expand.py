"""`kdcode expand`: a .kdc file back to vectors, in any format that can be written."""

from __future__ import annotations

from pathlib import Path

import click

from kdcode.cli import page
from kdcode.cli.files import check_target
from kdcode.cli.flags import example
from kdcode.cli.progress import progress


@click.command("expand", epilog=example("kdcode expand glove.kdc glove-again.txt"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--format", "format_name", help="Format of OUT; by default found from its name. See `kdcode formats`.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--quiet", is_flag=True, help="Print no progress on stderr.")
def command(file: str, target: str, format_name: str | None, force: bool, quiet: bool) -> None:
    """Write the vectors of a .kdc FILE to OUT, in any format."""
    from kdcode.formats import write
    from kdcode.storage import load

    check_target(target, source=file, force=force)
    coded = load(file)
    with progress("writing", quiet=quiet) as advance:
        write(coded, target, format=format_name, on_progress=advance)
    size = page.amount(Path(target).stat().st_size)
    click.echo(f"{page.shown(target)}  {len(coded):,} x {coded.embedding_dim:,}, {size}")
