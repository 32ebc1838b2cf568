"""`kdcode neighbors`: the nearest symbols, found on the codes."""

from __future__ import annotations

import click

from kdcode.cli import page
from kdcode.cli.flags import example
from kdcode.errors import OptionError

_METRICS = click.Choice(["cosine", "dot", "l2"])


@click.command("neighbors", epilog=example("kdcode neighbors glove.kdc king -k 5"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("symbol", required=False)
@click.option("-k", "count", type=click.IntRange(min=1), default=10, show_default=True, help="How many.")
@click.option("--metric", type=_METRICS, default="cosine", show_default=True, help="How nearness is measured.")
@click.option("--vector", help="Search near these numbers, separated by spaces or commas, instead of a SYMBOL.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: str, symbol: str | None, count: int, metric: str, vector: str | None, as_json: bool) -> None:
    """Print the symbols of a .kdc FILE nearest to SYMBOL."""
    from kdcode.storage import load

    if (symbol is None) == (vector is None):
        raise click.UsageError("give a SYMBOL or a --vector, one of the two")
    query = symbol if vector is None else _numbers(vector)
    found = load(file).neighbors(query, count, metric=metric)  # type: ignore[arg-type]  # one of the two is there
    if as_json:
        listed = [{"symbol": near.symbol, "score": near.score} for near in found]
        page.print_json({"query": query, "metric": metric, "neighbors": listed})
        return
    page.echo(f"{near.score:8.4f}  {page.shown(near.symbol)}" for near in found)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise OptionError(f"--vector takes numbers separated by spaces or commas: {error}") from None
