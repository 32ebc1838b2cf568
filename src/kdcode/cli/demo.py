"""`kdcode demo`: the embedded table compressed, and one page that shows the result."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from kdcode.cli.files import STANDARD, check_target
from kdcode.cli.flags import example
from kdcode.cli.learn import learn
from kdcode.cli.shell import command_line
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.learning import TableShard
    from kdcode.table import VectorTable


SIZES, SHOWN = ("10x", "20x", "40x"), "20x"
"""The sizes that are shown, and the one that is saved and shown in detail."""


@click.command(
    "demo", epilog=example("kdcode demo", "kdcode demo --out glove-demo.kdc", "kdcode demo --report glove-demo.html")
)
@click.option("--out", "target", type=click.Path(), help="Save the compressed table to this .kdc file.")
@click.option("--report", "page", type=click.Path(), help="Write the page of `kdcode report` about it to this file.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(target: str | None, page: str | None, force: bool, quiet: bool) -> None:
    """Compress 10,000 word vectors and show the result.

    It takes less than a minute. The vectors, GloVe's for common English words, are included in the package.
    """
    from kdcode.cli.demo_page import Demo, Sized, render
    from kdcode.data import glove_50d
    from kdcode.learning import Planned, TableShard
    from kdcode.options import CompressOptions
    from kdcode.storage import save

    for flag, file in (("--out", target), ("--report", page)):
        if file == STANDARD:
            raise click.UsageError(f"{flag} takes the name of a file; standard output is for what the demo shows")
        if file is not None:
            check_target(file, force=force)
    table = glove_50d()
    shard = TableShard.whole(table)
    with TemporaryDirectory() as folder:
        sizes = []
        for size in SIZES:
            started = time.monotonic()
            coded = _compressed(shard, size, quiet=quiet)
            seconds = time.monotonic() - started
            sizes.append(Sized(size, coded, save(coded, Path(folder, f"{size}.kdc")), seconds))
        main = sizes[SIZES.index(SHOWN)]
        if target is not None:
            save(main.coded, target)
    options = CompressOptions(codebook_size=16, code_length=16, codebook_dtype="int8")
    codes = learn(shard, Planned(options), title="learning codes", quiet=quiet)
    # As in the paper's table of codes: 6^4 = 1,296 of them for 10,000 words, so that words have to share.
    crowding = CompressOptions.of(codebook_size=6, code_length=4)
    crowded = learn(shard, Planned(crowding), title="learning very short codes", quiet=quiet)
    if page is not None:
        _write_report(table, main.coded, main.file_bytes, page, quiet=quiet)
    places = (Path(target) if target else None, Path(page) if page else None)
    click.echo("\n".join(render(Demo(table, sizes, SIZES.index(SHOWN), codes, crowded, *places))))


def _compressed(shard: TableShard, size: str, *, quiet: bool) -> CodedTable:
    """The table at a size, as `kdcode compress --effort fast` makes it."""
    from kdcode.learning import Goal, planned
    from kdcode.options import CompressOptions

    plan = planned(shard.table, CompressOptions.of(effort="fast"), Goal(size))
    return learn(shard, plan, title=f"compressing to {size}", quiet=quiet)


def _write_report(table: VectorTable, coded: CodedTable, file_bytes: int, page: str, *, quiet: bool) -> None:
    from kdcode.report import About, make_report

    about = About("glove-50d", "demo.kdc", file_bytes, command_line("demo", [], ["--report", page]))
    with progress("writing the report", quiet=quiet) as advance:
        make_report(table, coded, about=about, on_progress=advance).write(page)
