"""`kdcode neighbors`: the nearest symbols, found on the codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import input_file
from kdcode.cli.flags import example
from kdcode.cli.symbols import found_symbols, skip_missing
from kdcode.errors import OptionError
from kdcode.printable import shown

if TYPE_CHECKING:
    from kdcode.coded import Code, CodedTable
    from kdcode.search import Neighbor

_METRICS = click.Choice(["cosine", "dot", "l2"])


@click.command(
    "neighbors", epilog=example("kdcode neighbors glove.kdc king -k 5", "kdcode neighbors glove.kdc king queen")
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("symbols", nargs=-1, metavar="[SYMBOL]...")
@click.option("-k", "count", type=click.IntRange(min=1), default=10, show_default=True, help="Number of neighbors.")
@click.option("--metric", type=_METRICS, default="cosine", show_default=True, help="Similarity measure.")
@click.option("--vector", help="Query vector instead of a SYMBOL: numbers separated by spaces or commas.")
@click.option("--threads", type=click.IntRange(min=1), help="Number of CPU threads; by default all.")
@skip_missing
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object per query.")
def command(
    file: str,
    symbols: tuple[str, ...],
    *,
    count: int,
    metric: str,
    vector: str | None,
    threads: int | None,
    skip_missing: bool,
    as_json: bool,
) -> None:
    """Find the nearest neighbors of each SYMBOL in a .kdc FILE.

    Each line has the score of a neighbor and its symbol. Neighbors with the same code as SYMBOL, or as a neighbor
    listed before, have the same vector and are marked. If SYMBOL is a dash, symbols are read from standard input, one
    per line.
    """
    from kdcode.storage import load

    if (not symbols) == (vector is None):
        raise click.UsageError("give a SYMBOL or a --vector, one of the two")
    coded = load(input_file(file))
    queries: list[Any] = found_symbols(coded, symbols, skip=skip_missing) if vector is None else [_numbers(vector)]
    answers = [
        {"query": query, "metric": metric, "neighbors": _listed(coded, query, found)}
        for query, found in zip(queries, coded.neighbors(queries, count, metric=metric, threads=threads), strict=True)
    ]
    if as_json:
        page.print_json(answers)
    elif answers:
        page.echo(_lines(answers, headed=len(symbols) > 1 or len(answers) > 1))


def _listed(coded: CodedTable, query: str | list[float], found: Sequence[Neighbor]) -> list[dict[str, Any]]:
    """Neighbours as JSON values; `same_code_as` is the query, or the neighbour before, that has the same code."""
    first: dict[Code, str] = {coded.code_of(query): query} if isinstance(query, str) else {}
    listed = []
    for near in found:
        code = coded.code_of(near.symbol)
        listed.append({"symbol": near.symbol, "score": near.score, "same_code_as": first.get(code)})
        first.setdefault(code, near.symbol)
    return listed


def _lines(answers: Sequence[dict[str, Any]], *, headed: bool) -> Iterator[str]:
    """A line per neighbour; blocks have the query above them, and an empty line between."""
    for number, answer in enumerate(answers):
        if headed:
            yield from [""] * (number > 0)
            yield click.style(shown(answer["query"]), bold=True)
        for near in answer["neighbors"]:
            same = near["same_code_as"]
            mark = f"  (same code as {shown(same)})" if same is not None else ""
            yield f"{near['score']:8.4f}  {shown(near['symbol'])}{mark}"


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise OptionError(f"--vector takes numbers separated by spaces or commas: {error}") from None
