"""`kdcode get`: vectors or codes of some symbols."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kdcode.cli import page
from kdcode.cli.files import input_file
from kdcode.cli.flags import example
from kdcode.cli.symbols import found_symbols, skip_missing
from kdcode.printable import shown


@click.command("get", epilog=example("kdcode get glove.kdc king queen", "kdcode get glove.kdc - --codes < words.txt"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("symbols", nargs=-1, required=True, metavar="SYMBOL...")
@click.option("--codes", "as_codes", is_flag=True, help="Print codes instead of vectors.")
@skip_missing
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects.")
def command(file: str, symbols: tuple[str, ...], as_codes: bool, skip_missing: bool, as_json: bool) -> None:
    """Look up symbols in a .kdc FILE and print their vectors.

    Each line has a symbol and its numbers, separated by spaces. If SYMBOL is a dash, symbols are read from standard
    input, one per line.
    """
    from kdcode.storage import load

    coded = load(input_file(file))
    wanted = found_symbols(coded, symbols, skip=skip_missing)
    if as_codes:
        found: Sequence[Sequence[float]] = [coded.code_of(symbol) for symbol in wanted]
    else:
        found = [page.shortest(vector) for vector in coded[wanted]]
    if as_json:
        name = "code" if as_codes else "vector"
        page.print_json([{"symbol": symbol, name: values} for symbol, values in zip(wanted, found, strict=True)])
    elif as_codes:
        texts = [page.code_text(coded.code_of(symbol), coded.spec) for symbol in wanted]
        page.echo(f"{shown(word)} {text}" for word, text in zip(wanted, texts, strict=True))
    elif wanted:
        page.echo(f"{shown(word)} {' '.join(map(str, row))}" for word, row in zip(wanted, found, strict=True))
