"""`kdcode assemble`: the slices of `kdcode encode` as one .kdc file."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.files import check_target
from kdcode.cli.flags import example
from kdcode.printable import shown
from kdcode.progress_bar import progress


@click.command("assemble", epilog=example("kdcode assemble codes table.kdc --codebook cb.kdc"))
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.argument("target", metavar="OUT", type=click.Path())
@click.option(
    "--codebook",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help=".kdc file that the rows were encoded by.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(folder: str, target: str, codebook: str, force: bool, as_json: bool, quiet: bool) -> None:
    """Make one .kdc file OUT of the codes that `kdcode encode` has written to FOLDER.

    Rows are in the order of the parts. Memory does not grow with their number; beside OUT there must be room for the
    file twice.
    """
    from kdcode.bulk import assemble
    from kdcode.storage import load

    check_target(target, force=force, inputs=[codebook])
    with progress("assembling", after="assembling (sorting symbols, writing)", quiet=quiet) as advance:
        assemble(folder, target, codebook, progress=advance)
    coded = load(target)
    facts = page.describe(coded, target)
    if as_json:
        page.print_json(facts)
        return
    page.echo([click.style(shown(target), bold=True), f"{len(coded):,} x {coded.embedding_dim:,}"])
    page.echo(page.size_rows(coded.sizes, len(coded), coded.embedding_dim, facts["file_bytes"]))
    page.echo(f"  {line}" for line in page.pairs(page.quality(coded.provenance, coded)))
