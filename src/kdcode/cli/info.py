"""`kdcode info`: what is in a file and what it takes."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.files import input_file, spoken
from kdcode.cli.flags import example


@click.command("info", epilog=example("kdcode info glove.kdc"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, as_json: bool) -> None:
    """Show what a .kdc FILE holds, its size and how it was made."""
    from kdcode.run_record import learned_with
    from kdcode.storage import load

    path = input_file(file)
    coded = load(path)
    facts = {**page.describe(coded, path), "file": file}
    if as_json:
        page.print_json(facts)
        return
    shape = {
        "symbols": f"{len(coded):,}" if len(coded) else "none: this is a codebook, which codes rows of other files",
        "dimensions": f"{coded.embedding_dim:,}",
        **page.code_shape(coded),
    }
    page.echo([click.style(spoken(file), bold=True), *page.pairs(shape), ""])
    page.echo(page.size_rows(coded.sizes, len(coded), coded.embedding_dim, facts["file_bytes"]))
    lost = page.quality(coded.provenance, coded)
    if lost:
        when = "when the file was made" if len(coded) else "on the rows that it was learned from"
        page.echo(["", f"quality, measured {when}", *(f"  {line}" for line in page.pairs(lost))])
    learned = learned_with(coded.provenance)
    if learned:
        page.echo(["", "learned with", *(f"  {line}" for line in page.pairs(learned))])
