"""Symbols that commands are asked for: as arguments or on standard input, and what happens to missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kdcode.cli.files import STANDARD, standard_input
from kdcode.printable import shown

if TYPE_CHECKING:
    from kdcode.coded import CodedTable

skip_missing = click.option(
    "--skip-missing", is_flag=True, help="Skip symbols that are not in the file, and list them on stderr."
)


def found_symbols(coded: CodedTable, given: Sequence[str], *, skip: bool) -> list[str]:
    """The symbols that were asked for and are there, in order; a dash stands for those on standard input.

    Raises:
        UnknownSymbolError: some are not there, and are not to be skipped; all of them are listed.
    """
    wanted = [symbol for one in given for symbol in (_from_stdin() if one == STANDARD else [one])]
    if not skip:
        coded.rows_of(wanted)  # refuses before anything is printed
        return wanted
    found = [symbol for symbol in wanted if symbol in coded]
    missing = [shown(symbol) for symbol in dict.fromkeys(wanted) if symbol not in coded]
    if missing:
        click.echo(f"not in the file: {', '.join(missing)}", err=True)
    return found


def _from_stdin() -> list[str]:
    lines = standard_input().read().decode("utf-8", "backslashreplace").split("\n")
    return [symbol for line in lines if (symbol := line.removesuffix("\r"))]
