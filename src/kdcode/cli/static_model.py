"""What `kdcode compress-model` does with a model of model2vec: one table and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kdcode.cli import page
from kdcode.cli.flags import dashed, is_given
from kdcode.errors import OptionError
from kdcode.integrations.model2vec_folder import compress_folder
from kdcode.printable import shown

_MEANINGLESS = ("only", "heads", "calibrate", "min_rows", "dtype", "gguf_file")


def refuse_other_flags() -> None:
    """Refuse flags about layers that such a model does not have."""
    for name in _MEANINGLESS:
        if is_given(name):
            raise OptionError(f"{dashed(name)} means nothing for a model of model2vec, which is one table")


def compress_static_model(source: str, target: str, keywords: Mapping[str, Any], *, force: bool, as_json: bool) -> None:
    """Write a smaller copy of a model2vec folder, and print what it takes.

    Args:
        source: the folder.
        target: the new one.
        keywords: those of `compress`.
        force: whether a folder with a model in it is replaced.
        as_json: whether JSON is printed.
    """
    report = compress_folder(source, target, **keywords, replace=force)
    before, after = _bytes(Path(source)), _bytes(Path(target))
    if as_json:
        page.print_json({"folder": target, "folder_before": before, "folder_after": after, **report.as_dict()})
        return
    page.echo(
        [
            click.style(shown(target), bold=True),
            *(f"  {shown(line)}" for line in str(report).split("\n")),
            "",
            f"  all files {page.amount(before)} before, {page.amount(after)} now",
            "",
            "next",
            "  from kdcode.integrations.model2vec_folder import load",
            f"  model = load({shown(repr(target))})",
        ]
    )


def _bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
