"""`kdcode info`: what is in a file and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from kdcode.cli import page
from kdcode.cli.files import input_file, spoken
from kdcode.cli.flags import example
from kdcode.printable import shown
from kdcode.provenance import MEASURED


@click.command("info", epilog=example("kdcode info glove.kdc"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, as_json: bool) -> None:
    """Show what a .kdc FILE holds, its size and how it was made."""
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
    learned = _learned(coded.provenance)
    if learned:
        page.echo(["", "learned with", *(f"  {line}" for line in page.pairs(learned))])


def _learned(provenance: Mapping[str, Any]) -> dict[str, str]:
    """How the codes were learned: the learner, its options, and what else provenance has and is not shown above."""
    from kdcode.options import LEARNER_OPTIONS

    rest = {name: value for name, value in provenance.items() if name not in MEASURED}
    options, learner = rest.get("options"), rest.get("learner")
    if isinstance(options, dict) and isinstance(learner, str) and learner in LEARNER_OPTIONS:
        applied = {"seed", "loss", *(item.name for item in fields(LEARNER_OPTIONS[learner]))}
        rest["options"] = {name: value for name, value in options.items() if name in applied}
    return _flat(rest)


def _flat(values: Mapping[str, Any]) -> dict[str, str]:
    """Provenance by name, options under their own names, without unset ones; nothing in it can break a line."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value))
        elif value is not None:
            flat[shown(name)] = shown(f"{value:.6g}" if isinstance(value, float) else str(value))
    return flat
