"""`kdcode export`: a .kdc file as an ONNX model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kdcode.cli import page
from kdcode.cli.files import STANDARD, check_target, input_file, output_file
from kdcode.cli.flags import example, naming_flags
from kdcode.cli.shell import command_line
from kdcode.errors import OptionError
from kdcode.printable import shown
from kdcode.progress_bar import progress


@click.command(
    "export",
    epilog=example(
        "kdcode export glove.kdc glove.onnx --symbols glove.symbols.txt",
        "kdcode export glove.kdc batches.onnx --rank 2 --check",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(allow_dash=True))
@click.option(
    "--rank",
    type=int,
    default=1,
    show_default=True,
    help="Dimensions of the ids: 1 for a list of rows, 2 for (batch, length). Their sizes may vary from call to call.",
)
@click.option(
    "--symbols", type=click.Path(), help="Also write the symbols to this file, one per line, in the order of their ids."
)
@click.option(
    "--check", is_flag=True, help="Also compare the vectors that onnxruntime computes with those of FILE, for all rows."
)
@click.option("--force", is_flag=True, help="Overwrite OUT, and the file of the symbols, if they exist.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(file: str, target: str, rank: int, symbols: str | None, check: bool, force: bool, quiet: bool) -> None:
    """Write a .kdc FILE as an ONNX model OUT, from row numbers to vectors.

    The model has the input `ids` (int64) and the output `vectors` (float32). It consists of standard operators of opset
    18, which unpack the codes as well, and is as small as FILE without its symbols. Ids that are negative, or not below
    the number of rows, are errors. A dash stands for standard input or output.
    """
    from kdcode.integrations.onnx_export import export_onnx
    from kdcode.storage import load

    is_standard = target == STANDARD
    _check_names(file, target, symbols)
    check_target(target, *([Path(symbols)] if symbols else []), force=force, inputs=[file])
    with naming_flags(OptionError), output_file(target) as path:
        coded = load(input_file(file))
        with progress("checking" if check else "exporting", before="exporting", quiet=quiet) as advance:
            size = export_onnx(coded, path, rank=rank, symbols=symbols, check=check, on_progress=advance)
    name = "standard output" if is_standard else shown(target)
    if not (is_standard and quiet):
        checked = ", as onnxruntime computes them" if check else ""
        click.echo(f"{name}  {len(coded):,} x {coded.embedding_dim:,}, {page.amount(size)}{checked}", err=is_standard)


def _check_names(file: str, target: str, symbols: str | None) -> None:
    """Refuse names that cannot be meant, or standard output where it cannot take a model."""
    from kdcode.formats import FORMATS

    if symbols == STANDARD:
        raise click.UsageError("--symbols takes the name of a file, got a dash")
    if target == STANDARD:
        if sys.stdout.isatty():
            raise OptionError("-: an ONNX model is not for a terminal; pipe it on, or name a file")
        return
    for known in FORMATS.values():
        if known.write is not None and target.lower().endswith(known.suffixes):
            raise OptionError(
                f"{target}: `kdcode export` writes ONNX models, name a file that ends in .onnx; "
                f"for vectors, use: {command_line('expand', [file, target])}"
            )
