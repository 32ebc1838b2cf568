"""`kdcode get`: vectors or codes of some symbols."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kdcode.cli import page
from kdcode.cli.flags import example


@click.command("get", epilog=example("kdcode get glove.kdc king queen", "kdcode get glove.kdc - --codes < words.txt"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("symbols", nargs=-1, required=True, metavar="SYMBOL...")
@click.option("--codes", "as_codes", is_flag=True, help="Print codes instead of vectors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects.")
def command(file: str, symbols: tuple[str, ...], as_codes: bool, as_json: bool) -> None:
    """Print the vectors of symbols in a .kdc FILE.

    One line per symbol: the symbol and its numbers, separated by spaces.

    A SYMBOL that is a single dash stands for symbols on standard input, one per line.
    """
    from kdcode.storage import load

    coded = load(file)
    wanted = [symbol for given in symbols for symbol in (_from_stdin() if given == "-" else [given])]
    rows = [coded.row_of(symbol) for symbol in wanted]  # all are found before the first is printed
    if as_codes:
        found: Sequence[Sequence[float]] = [coded.code_of(symbol) for symbol in wanted]
    else:
        found = [page.shortest(vector) for vector in coded.decode(rows)]
    if as_json:
        name = "code" if as_codes else "vector"
        page.print_json([{"symbol": symbol, name: values} for symbol, values in zip(wanted, found, strict=True)])
    else:
        mark = "-" if as_codes else " "
        page.echo(f"{page.shown(word)} {mark.join(map(str, row))}" for word, row in zip(wanted, found, strict=True))


def _from_stdin() -> list[str]:
    lines = (line.rstrip("\n") for line in sys.stdin)
    return [line for line in lines if line]
