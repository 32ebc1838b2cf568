"""`kdcode encode`: rows of many files to codes, by one codebook, on this machine or on Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.checkpoints import telling_what_is_kept
from kdcode.cli.flags import FlaggedCommand, Sections, dashed, example, flags_for, is_given, naming_flags, take
from kdcode.cli.shell import command_line
from kdcode.errors import FileError, OptionError
from kdcode.printable import shown
from kdcode.progress_bar import Advance, clock, progress

if TYPE_CHECKING:
    from kdcode.bulk import EncodeProgress
    from kdcode.bulk.engines import Engine

_OF_ENGINE = {"local": ("threads",), "ray": ("workers", "ray_address")}
"""The flags that only one engine has."""


def _sections() -> Sections:
    from kdcode.bulk.settings import EncodeSettings
    from kdcode.cli.flags import reading_sections

    return {"Codes": flags_for(EncodeSettings), **reading_sections("Reading PARTS")}


@click.command(
    "encode",
    cls=FlaggedCommand,
    sections=_sections,
    epilog=example(
        "kdcode encode 'parts/*.parquet' codes --codebook cb.kdc",
        "kdcode encode 'parts/*.parquet' codes --codebook cb.kdc --engine ray --workers 8",
    ),
)
@click.argument("parts", nargs=-1, required=True, metavar="PARTS...")
@click.argument("folder", metavar="OUT_FOLDER", type=click.Path(file_okay=False))
@click.option(
    "--codebook",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help=".kdc file whose codec is used: of `kdcode learn-codebook`, or any other.",
)
@click.option(
    "--engine",
    type=click.Choice([*_OF_ENGINE]),
    default="local",
    show_default=True,
    help="Encode in this process, or on workers of Ray. The codes are the same.",
)
@click.option("--threads", type=click.IntRange(min=1), help="local: number of CPU threads; by default all.")
@click.option("--workers", type=click.IntRange(min=1), help="ray: number of workers; by default one for each CPU.")
@click.option("--ray-address", metavar="ADDRESS", help="ray: cluster to join, such as auto or ray://host:10001.")
@click.option(
    "--force", is_flag=True, help="Start over if OUT_FOLDER has codes of other parts, settings or of another codebook."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    parts: tuple[str, ...],
    folder: str,
    *,
    codebook: str,
    engine: str,
    threads: int | None,
    workers: int | None,
    ray_address: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the settings
) -> None:
    """Encode the rows of PARTS, slice by slice, into Parquet files in OUT_FOLDER.

    PARTS are .npy, safetensors or Parquet files, folders of them, patterns in quotes, or URLs such as s3://…; the files
    of a pattern are taken in the order of their names. `kdcode assemble` makes one .kdc file of OUT_FOLDER. After
    Ctrl-C, or when the machine was lost, the same command goes on with the slices that are left.
    """
    from kdcode.bulk import encode_parts
    from kdcode.bulk.settings import EncodeSettings
    from kdcode.io import ReadOptions, open_parts

    settings, reading = take(EncodeSettings, values), take(ReadOptions, values)
    _check_flags(engine)
    chosen = _engine(engine, threads, workers, ray_address)
    chosen.check()
    with naming_flags(OptionError):
        sources = open_parts(parts, reading)
    began = time.monotonic()
    seen = _Seen(quiet=quiet)
    with _going_on(seen), progress("encoding", before="encoding (starting)", quiet=quiet) as advance:
        report = encode_parts(
            sources, folder, codebook, settings=settings, engine=chosen, force=force, progress=seen.shown_by(advance)
        )
    seconds = round(time.monotonic() - began, 1)
    file_bytes = sum(path.stat().st_size for path in Path(folder).glob("codes-*.parquet"))
    result = {
        "folder": folder,
        "rows": report.rows,
        "slices": report.slices,
        "encoded_slices": len(report.encoded),
        "bytes": file_bytes,
        "seconds": seconds,
    }
    if as_json:
        page.print_json(result)
        return
    kept = report.slices - len(report.encoded)
    words = f"{report.rows:,} rows in {report.slices:,} slices, {page.amount(file_bytes)}, in {clock(seconds)}"
    page.echo([f"{shown(folder)}  {words}" + (f"; {kept:,} slices were there already" if kept else "")])
    page.echo(["", "next", f"  {command_line('assemble', [folder, 'table.kdc'], ['--codebook', codebook])}"])


class _Seen:
    """What is shown of a run, and how far it came."""

    def __init__(self, *, quiet: bool) -> None:
        self.last: EncodeProgress | None = None
        self._quiet = quiet
        self._first: tuple[int, float] | None = None

    def shown_by(self, advance: Advance) -> Callable[[EncodeProgress], None]:
        def show(now: EncodeProgress) -> None:
            if self._first is None:
                self._first = (now.rows_done, time.monotonic())
                self._begin(now)
            self.last = now
            rate = (now.rows_done - self._first[0]) / max(1e-9, time.monotonic() - self._first[1])
            advance(now.rows_done, now.rows, f"{now.rows_done:,} of {now.rows:,} rows, {rate:,.0f} rows/s")

        return show

    def _begin(self, now: EncodeProgress) -> None:
        if self._quiet:
            return
        lines = [
            f"{now.rows:,} rows in {now.slices:,} slices; codes will take {page.amount(now.code_bytes)}, with ids more"
        ]
        if now.slices_done:
            lines.append(f"{now.slices_done:,} slices with {now.rows_done:,} rows are there already")
        page.echo(lines, err=True)


def _check_flags(engine: str) -> None:
    """Refuse flags that say nothing to the engine that was chosen."""
    for other, names in _OF_ENGINE.items():
        for name in names:
            if other != engine and is_given(name):
                raise click.UsageError(f"{dashed(name)} is for --engine {other}; leave it out, or choose that engine")


def _engine(engine: str, threads: int | None, workers: int | None, address: str | None) -> Engine:
    if engine == "ray":
        from kdcode.integrations.ray_encoding import RayEngine

        return RayEngine(workers, address)
    from kdcode.bulk.engines import LocalEngine

    return LocalEngine(threads)


@contextmanager
def _going_on(seen: _Seen) -> Iterator[None]:
    """Say what is kept where a run ends before its time, and that it goes on."""

    def kept() -> str:
        if seen.last is None:
            return ""
        done = f"{seen.last.slices_done:,} of {seen.last.slices:,} slices are written"
        return f"; {done}, and the same command goes on with the others"

    try:
        with telling_what_is_kept(kept):
            yield
    except FileError as error:
        if seen.last is not None and error.strerror is not None:
            raise type(error)(error.errno, f"{error.strerror}{kept()}", error.filename) from error
        raise
