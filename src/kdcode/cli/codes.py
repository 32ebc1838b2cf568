"""`kdcode codes`: which symbols share a code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kdcode.cli import page
from kdcode.cli.flags import example
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.table import IntArray

_SYMBOLS_PER_LINE = 12


@dataclass(frozen=True)
class CodeGroup:
    """Rows that have the same code.

    Args:
        code: their D integers.
        rows: (n,) row numbers in order.
    """

    code: tuple[int, ...]
    rows: IntArray


@click.command("codes", epilog=example("kdcode codes glove.kdc", "kdcode codes glove.kdc --prefix 3-1-0"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--prefix", metavar="CODE", help="Only codes that begin so, like 3-1-0.")
@click.option("--min-group", type=click.IntRange(min=1), help="Smallest group to show.  [default: 2; with --prefix 1]")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Groups to show; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every symbol of each group.")
def command(file: str, prefix: str | None, min_group: int | None, limit: int, as_json: bool) -> None:
    """Print symbols of a .kdc FILE that share a code.

    Largest groups come first. With --prefix, all codes that begin alike, sorted by code.
    """
    from kdcode.storage import load

    coded = load(file)
    least = min_group or (2 if prefix is None else 1)
    groups = [group for group in find_groups(coded, _integers(prefix, coded)) if len(group.rows) >= least]
    if prefix is None:
        groups.sort(key=lambda group: (-len(group.rows), group.code))
    listed = groups[: limit or None]
    if as_json:
        page.print_json([{"code": group.code, "symbols": coded.symbols_at(group.rows)} for group in listed])
    else:
        for group in listed:
            click.echo(_line(coded, group))
    if not groups:
        click.echo(f"no code here has {least} or more symbols; --prefix shows codes that begin alike", err=True)
    elif len(groups) > len(listed):
        click.echo(f"… and {len(groups) - len(listed):,} more groups; --limit 0 shows all", err=True)


def find_groups(coded: CodedTable, prefix: tuple[int, ...] = ()) -> Iterator[CodeGroup]:
    """The groups of rows with equal codes that begin with `prefix`, sorted by code."""
    import numpy as np

    kept_rows, kept_codes = [], []
    for start, codes in coded.code_chunks():
        matching = np.flatnonzero((codes[:, : len(prefix)] == prefix).all(axis=1))
        kept_rows.append(start + matching)
        kept_codes.append(codes[matching])
    rows, codes = np.concatenate(kept_rows), np.concatenate(kept_codes)
    order = np.lexsort(codes.T[::-1])
    rows, codes = rows[order], codes[order]
    edges = np.flatnonzero((codes[1:] != codes[:-1]).any(axis=1)) + 1
    for first, end in zip([0, *edges], [*edges, len(rows)], strict=True):
        if end > first:
            yield CodeGroup(tuple(codes[first].tolist()), rows[first:end])


def _integers(prefix: str | None, coded: CodedTable) -> tuple[int, ...]:
    if prefix is None:
        return ()
    try:
        code = tuple(int(part) for part in prefix.split("-"))
    except ValueError:
        raise OptionError(f"--prefix takes integers parted by dashes, like 3-1-0, got {prefix!r}") from None
    if len(code) > coded.code_length or max(code) >= coded.codebook_size:
        raise OptionError(
            f"--prefix {prefix}: codes here have {coded.code_length} integers in [0, {coded.codebook_size})"
        )
    return code


def _line(coded: CodedTable, group: CodeGroup) -> str:
    words = " ".join(map(page.shown, coded.symbols_at(group.rows[:_SYMBOLS_PER_LINE])))
    more = len(group.rows) - _SYMBOLS_PER_LINE
    return f"{page.code_text(group.code)}  {words}{f' … and {more:,} more' if more > 0 else ''}"
