"""`kdcode info`: what is in a file and what it takes."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.flags import example


@click.command("info", epilog=example("kdcode info glove.kdc"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, as_json: bool) -> None:
    """Show the codes, the bytes and the origin of a .kdc FILE."""
    from kdcode.storage import load

    coded = load(file)
    facts = page.describe(coded, file)
    if as_json:
        page.print_json(facts)
        return
    spec = coded.spec
    scale = f", {spec.scale_bits} bits of scale" if spec.scale_bits else ""
    groups = f" of {spec.groups} groups" if spec.composition == "grouped" else ""
    rotated = ", rotated" if spec.is_rotated else ""
    shape = {
        "symbols": f"{len(coded):,}",
        "dimensions": f"{coded.embedding_dim:,}",
        "code": f"K={spec.codebook_size}, D={spec.code_length}{scale}, {spec.bits} bits per symbol",
        "composition": f"{spec.composition}{groups}, codewords of {spec.codeword_dim} {spec.codebook_dtype}{rotated}",
        "parameters": f"{spec.parameters:,} (codes not counted)",
    }
    page.echo([click.style(page.shown(file), bold=True), *page.pairs(shape), ""])
    page.echo(page.size_rows(coded.sizes, len(coded), coded.embedding_dim, facts["file_bytes"]))
    if coded.provenance:
        page.echo(["", "learned with", *(f"  {line}" for line in page.pairs(_flat(coded.provenance)))])


def _flat(values: dict[str, object]) -> dict[str, str]:
    """Provenance by name, options under their own names, without unset ones; nothing in it can break a line."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value))
        elif value is not None:
            flat[page.shown(name)] = page.shown(f"{value:.6g}" if isinstance(value, float) else str(value))
    return flat
