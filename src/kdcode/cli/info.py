"""`kdcode info`: what is in a file and what it takes."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.flags import example


@click.command("info", epilog=example("kdcode info glove.kdc"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, as_json: bool) -> None:
    """Show the shape, the bytes and the learning of a .kdc FILE."""
    from kdcode.storage import load

    coded = load(file)
    facts = page.describe(coded, file)
    if as_json:
        page.print_json(facts)
        return
    shape = {
        "symbols": f"{len(coded):,}",
        "dimensions": f"{coded.embedding_dim:,}",
        "code": f"K={coded.codebook_size}, D={coded.code_length}, {coded.bits_per_symbol} bits per symbol",
        "composition": f"{coded.composition.name}, codewords of {facts['codeword_dim']} {facts['number_format']}",
        "parameters": f"{facts['parameters']:,} (the codes not counted)",
    }
    page.echo([click.style(page.shown(file), bold=True), *page.pairs(shape), ""])
    page.echo(page.size_rows(coded.sizes, len(coded), coded.embedding_dim, facts["file_bytes"]))
    if coded.provenance:
        page.echo(["", "learned with", *(f"  {line}" for line in page.pairs(_flat(coded.provenance)))])


def _flat(values: dict[str, object]) -> dict[str, str]:
    """Provenance by name, options under their own names; nothing in it can break a line."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value))
        else:
            flat[page.shown(name)] = page.shown(f"{value:.6g}" if isinstance(value, float) else str(value))
    return flat
