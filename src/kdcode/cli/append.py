"""`kdcode append`: rows added to a .kdc file, coded by its codec."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from kdcode.cli import page
from kdcode.cli.files import check_target
from kdcode.cli.flags import FlaggedCommand, Sections, example, flags_for, naming_flags, reading_sections, take
from kdcode.errors import OptionError
from kdcode.printable import shown
from kdcode.progress_bar import progress


def _sections() -> Sections:
    from kdcode.bulk.settings import EncodeSettings

    return {"Codes": flags_for(EncodeSettings, only=("beam", "sweeps")), **reading_sections("Reading NEW")}


@click.command(
    "append",
    cls=FlaggedCommand,
    sections=_sections,
    epilog=example("kdcode append table.kdc new.parquet", "kdcode append table.kdc more.parquet --output larger.kdc"),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("new", metavar="NEW")
@click.option("--output", type=click.Path(), help="Write the larger table to this file, and leave FILE as it is.")
@click.option("--threads", type=click.IntRange(min=1), help="Number of CPU threads; by default all.")
@click.option("--force", is_flag=True, help="Overwrite the file of --output if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    file: str,
    new: str,
    *,
    output: str | None,
    threads: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the settings
) -> None:
    """Add the rows of NEW to a .kdc FILE, coded by its codec.

    The codes of the rows that are there do not change, and the codec is not learned anew: the printed error tells how
    well it suits the new rows. NEW is a .npy, safetensors or Parquet file, a folder of them, a pattern or a URL. FILE
    is replaced when the larger one is whole.
    """
    from kdcode.bulk import append
    from kdcode.bulk.settings import EncodeSettings
    from kdcode.io import ReadOptions, open_reader

    settings = EncodeSettings(beam=values.pop("beam"), sweeps=values.pop("sweeps"))
    reading = take(ReadOptions, values)
    if output is not None:
        check_target(output, force=force, inputs=[file, new])
    with naming_flags(OptionError):
        source = open_reader(new, reading)
    with progress("encoding", after="encoding (writing)", quiet=quiet) as advance:
        report = append(file, source, output, settings=settings, threads=threads, progress=advance)
    if as_json:
        page.print_json({**asdict(report), "path": str(report.path)})
        return
    rows = f"{report.rows_before:,} rows and {report.rows_added:,} new ones, {page.amount(report.file_bytes)}"
    page.echo(
        [
            f"{shown(str(report.path))}  {rows}",
            f"  error of the new rows  {report.relative_error:.4f}   (0: perfect, 1: their mean vector for every row)",
        ]
    )
