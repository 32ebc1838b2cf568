"""`kdcode formats`: what can be read and written."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.flags import example


@click.command("formats", epilog=example("kdcode formats"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the file formats that can be read and written."""
    from kdcode.errors import install_line
    from kdcode.io import FORMATS

    if as_json:
        listed = []
        for item in FORMATS.values():
            facts = {name: value for name, value in vars(item).items() if name != "open"}
            has = {name: bool(getattr(item, name)) for name in ("write", "symbols_beside")}
            listed.append({**facts, "read": True, **has})
        page.print_json(listed)
        return
    rows = [("format", "suffixes", "does", "description")]
    for item in FORMATS.values():
        does = "read, write" if item.write is not None else "read"
        needs = f" ({install_line(item.extra)})" if item.extra else ""
        rows.append((item.name, " ".join(item.suffixes), does, item.description + needs))
    page.echo(page.columns(rows))
