"""assemble: the slices of a folder as one .kdc file, in memory that does not grow with the number of rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kdcode.bulk.encoding_run import Codebook
from kdcode.bulk.losses import RowLosses
from kdcode.bulk.manifest import FILE_NAME, Manifest, codec_digest
from kdcode.bulk.slice_file import is_finished, read_losses, read_slice, require_parquet
from kdcode.coded import CodedTable
from kdcode.errors import CheckpointError, FormatError, TableError
from kdcode.provenance import without_measures
from kdcode.storage import load
from kdcode.stream_storage import writing_table


def assemble(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    codebook: Codebook,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Make one .kdc file of the codes that `encode_parts` has written to a folder, and return its bytes.

    Rows are in the order of the parts. Symbols are sorted on the disk beside the target, which needs room for the file
    twice. The provenance is that of the codebook, with the error over all rows in place of that over those it was
    learned from.

    Args:
        folder: of `encode_parts`.
        path: the file to write; what is there is replaced when the new file is whole.
        codebook: the same that was used to encode.
        progress: called with rows done and rows in all.

    Raises:
        CheckpointError: slices are missing, or they are of another codebook.
        FormatError: the file of a slice is damaged.
        TableError: two rows have the same symbol; it is named with both rows.
        FileError: a file cannot be read or written.
    """
    require_parquet()
    table = codebook if isinstance(codebook, CodedTable) else load(codebook)
    place = Path(folder)
    manifest = _complete_manifest(place, table)
    losses = RowLosses.none(table.embedding_dim)
    with writing_table(path, table.codec) as writer:
        for piece in manifest.slices:
            file = place / piece.file_name
            losses.add_sums(read_losses(file))
            for symbols, packed in read_slice(file, piece, table.spec.row_bytes):
                if (symbols is not None) != manifest.has_symbols:
                    raise FormatError(f"{file}: is damaged: its ids are not those of this run; remove it, encode again")
                writer.add(packed, symbols)
                if progress is not None:
                    progress(writer.rows, manifest.rows)
        try:
            return writer.finish(_provenance(table, manifest, losses))
        except TableError as error:
            raise TableError(f"{place}: {error}; rows are counted over all parts, from 0") from error


def _complete_manifest(folder: Path, codebook: CodedTable) -> Manifest:
    """The manifest of a folder whose slices are all there."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise CheckpointError(f"{folder}: has no {FILE_NAME}; expected a folder of `kdcode encode`")
    if manifest.codebook != codec_digest(codebook.codec):
        raise CheckpointError(f"{folder}: was encoded by another codebook; give the one that it was encoded by")
    missing = [
        piece.file_name for piece in manifest.slices if not is_finished(folder / piece.file_name, piece, manifest.stamp)
    ]
    if missing:
        raise CheckpointError(
            f"{folder}: {len(missing):,} of {len(manifest.slices):,} slices are missing, the first is {missing[0]}; "
            "run `kdcode encode` again, which goes on where it was"
        )
    return manifest


def _provenance(codebook: CodedTable, manifest: Manifest, losses: RowLosses) -> dict[str, Any]:
    settings = asdict(manifest.settings)
    del settings["rows_per_slice"]  # says nothing of the rows
    return {
        **without_measures(codebook.provenance),
        **losses.measured(),
        "encoded": {"rows": manifest.rows, "parts": len(manifest.parts), **settings},
    }
