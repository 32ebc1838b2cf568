"""`kdcode export`: a .kdc file as an ONNX model or a faiss index."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kdcode.cli import page
from kdcode.cli.files import STANDARD, check_target, input_file, output_file
from kdcode.cli.flags import dashed, example, is_given, naming_flags
from kdcode.cli.shell import command_line
from kdcode.errors import OptionError
from kdcode.printable import shown
from kdcode.progress_bar import progress

_KINDS = {"onnx": "an ONNX model", "faiss": "a faiss index"}
"""What can be written, by its name and suffix."""

_FLAGS = {"onnx": ("rank", "check"), "faiss": ("metric",)}
"""The flags that only one of them has."""


@click.command(
    "export",
    epilog=example(
        "kdcode compress glove.txt words.kdc --size 20x --codewords",
        "kdcode export words.kdc glove.onnx --symbols glove.symbols.txt",
        "kdcode export words.kdc batches.onnx --rank 2 --check",
        "kdcode export words.kdc glove.faiss --metric l2",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(allow_dash=True))
@click.option(
    "--format",
    "format_name",
    type=click.Choice([*_KINDS]),
    help="What to write. Without it, the suffix of OUT decides: .faiss is a faiss index, all else an ONNX model.",
)
@click.option(
    "--rank",
    type=int,
    default=1,
    show_default=True,
    help="ONNX: dimensions of the ids: 1 for a list of rows, 2 for (batch, length). Their sizes may vary from call to "
    "call.",
)
@click.option(
    "--metric",
    metavar="[dot|l2]",
    default="dot",
    show_default=True,
    help="faiss: search by dot product or by distance. The scores for l2 are squared distances.",
)
@click.option(
    "--symbols", type=click.Path(), help="Also write the symbols to this file, one per line, in the order of their ids."
)
@click.option(
    "--check",
    is_flag=True,
    help="ONNX: also compare the vectors that onnxruntime computes with those of FILE, for all rows.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT, and the file of the symbols, if they exist.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    file: str,
    target: str,
    *,
    format_name: str | None,
    rank: int,
    metric: str,
    symbols: str | None,
    check: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Write a .kdc FILE as an ONNX model or a faiss index OUT.

    The ONNX model leads from row numbers to vectors, with the input `ids` (int64) and the output `vectors` (float32).
    It consists of standard operators of opset 18, which unpack the codes as well, and is as small as FILE without its
    symbols. Ids that are negative, or not below the number of rows, are errors.

    The faiss index searches the codes of FILE, which are not encoded again; its ids are row numbers. faiss.read_index
    reads it. LSTM codes and row scales cannot be written.

    Transform codes can be written as neither: compress with --codewords, or expand the file. A dash stands for standard
    input or output.
    """
    from kdcode.integrations.faiss_index import export_faiss
    from kdcode.integrations.onnx_export import export_onnx
    from kdcode.storage import load

    is_standard = target == STANDARD
    kind = format_name or ("faiss" if target.lower().endswith(".faiss") else "onnx")
    _check_flags(kind, symbols)
    _check_names(file, target, kind, is_named=format_name is not None)
    check_target(target, *([Path(symbols)] if symbols else []), force=force, inputs=[file])
    with naming_flags(OptionError), output_file(target) as path:
        coded = load(input_file(file))
        with progress("checking" if check else "exporting", before="exporting", quiet=quiet) as advance:
            if kind == "faiss":
                size = export_faiss(coded, path, metric=metric, symbols=symbols)
            else:
                size = export_onnx(coded, path, rank=rank, symbols=symbols, check=check, on_progress=advance)
    name = "standard output" if is_standard else shown(target)
    if not (is_standard and quiet):
        checked = ", as onnxruntime computes them" if check else ""
        click.echo(f"{name}  {len(coded):,} x {coded.embedding_dim:,}, {page.amount(size)}{checked}", err=is_standard)


def _check_flags(kind: str, symbols: str | None) -> None:
    """Refuse flags that say nothing about what is written."""
    if symbols == STANDARD:
        raise click.UsageError("--symbols takes the name of a file, got a dash")
    for other, names in _FLAGS.items():
        for name in names:
            if other != kind and is_given(name):
                raise click.UsageError(
                    f"{dashed(name)} is for {_KINDS[other]}, and OUT is {_KINDS[kind]}; leave it out, name a file that "
                    f"ends in .{other}, or give --format {other}"
                )


def _check_names(file: str, target: str, kind: str, *, is_named: bool) -> None:
    """Refuse names that cannot be meant, or standard output where it cannot take what is written."""
    from kdcode.io import FORMATS

    if target == STANDARD:
        if sys.stdout.isatty():
            raise OptionError(f"-: {_KINDS[kind]} is not for a terminal; pipe it on, or name a file")
        return
    for known in FORMATS.values():
        if not is_named and known.write is not None and target.lower().endswith(known.suffixes):
            raise OptionError(
                f"{target}: `kdcode export` writes ONNX models and faiss indexes, name a file that ends in .onnx or "
                f".faiss; for vectors, use: {command_line('expand', [file, target])}"
            )
