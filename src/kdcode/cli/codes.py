"""`kdcode codes`: which symbols share a code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kdcode.cli import page
from kdcode.cli.files import input_file
from kdcode.cli.flags import example, naming_flags
from kdcode.errors import OptionError
from kdcode.printable import shown

if TYPE_CHECKING:
    from kdcode.arrays import IntArray
    from kdcode.coded import CodedTable

_SYMBOLS_PER_LINE = 12


@click.command("codes", epilog=example("kdcode codes glove.kdc", "kdcode codes glove.kdc --prefix 3-1-0"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--prefix", metavar="CODE", help="Only show codes that start with these integers, such as 3-1-0.")
@click.option("--min-group", type=click.IntRange(min=1), help="Minimum group size.  [default: 2, or 1 with --prefix]")
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Maximum number of groups; 0 shows all."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON with every symbol of each group.")
def command(file: str, prefix: str | None, min_group: int | None, limit: int, as_json: bool) -> None:
    """List symbols of a .kdc FILE that share a code.

    The largest groups come first. With --prefix, all codes that start alike are listed, sorted by code. Transform codes
    are shown as the levels of their coordinates, and have no --prefix.
    """
    from kdcode.storage import load

    coded = load(input_file(file))
    least = min_group or (2 if prefix is None else 1)
    if prefix is not None and coded.codewords is None:
        raise OptionError(
            "--prefix: this table has transform codes, whose integers are levels of coordinates and not codewords, so "
            "that codes that start alike have little in common; leave it out"
        )
    with naming_flags(OptionError):
        groups = [(code, rows) for code, rows in coded.code_groups(_integers(prefix)) if len(rows) >= least]
    if prefix is None:
        groups.sort(key=lambda group: -len(group[1]))
    listed = groups[: limit or None]
    if as_json:
        page.print_json([{"code": code, "symbols": coded.symbols_at(rows)} for code, rows in listed])
    else:
        for code, rows in listed:
            click.echo(f"{page.code_text(code, coded.spec)}  {_words(coded, rows)}")
    if not groups:
        hint = "; --prefix shows codes that begin alike" if coded.codewords is not None else ""
        click.echo(f"no code here has {least} or more symbols{hint}", err=True)
    elif len(groups) > len(listed):
        click.echo(f"… and {len(groups) - len(listed):,} more groups; --limit 0 shows all", err=True)


def _integers(prefix: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in prefix.split("-")) if prefix is not None else ()
    except ValueError:
        raise OptionError(f"--prefix takes integers separated by dashes, like 3-1-0, got {prefix!r}") from None


def _words(coded: CodedTable, rows: IntArray) -> str:
    words = " ".join(map(shown, coded.symbols_at(rows[:_SYMBOLS_PER_LINE])))
    more = len(rows) - _SYMBOLS_PER_LINE
    return f"{words} … and {more:,} more" if more > 0 else words
