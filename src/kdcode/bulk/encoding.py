"""encode_slice: rows to codes, by the same calls on whatever machine, so that every engine gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS
from kdcode.bulk.losses import RowLosses
from kdcode.bulk.manifest import Manifest
from kdcode.bulk.settings import EncodeSettings
from kdcode.bulk.slice_file import slice_bytes
from kdcode.bulk.slices import Slice
from kdcode.codec import Codec
from kdcode.errors import FormatError
from kdcode.io import Reader
from kdcode.threads import parallel_chunks

_CHUNK_FLOATS = 1 << 23
_FEWEST_ROWS = 256
_CHUNKS_TOGETHER = 8
"""Chunks that are read before they are encoded, each by one thread."""

OnRows = Callable[[int], None]
"""Called with how many rows were encoded since it was called last."""


@dataclass(frozen=True)
class Job:
    """What all slices of a run have in common.

    Args:
        codec: what codes mean.
        sources: the parts.
        manifest: of the run.
    """

    codec: Codec
    sources: tuple[Reader, ...]
    manifest: Manifest


def encode_slice(job: Job, piece: Slice, on_rows: OnRows | None = None) -> bytes:
    """The file of a slice.

    Raises:
        FormatError: a row of the part is damaged or not finite, or the part has changed since the run began.
        FileError: the part is gone, or cannot be read.
    """
    source, part = job.sources[piece.part], job.manifest.parts[piece.part]
    packed = np.empty((piece.rows, job.codec.spec.row_bytes), dtype=np.uint8)
    symbols: list[str] | None = [] if source.has_symbols else None
    losses = RowLosses.none(job.codec.spec.embedding_dim)
    reached = 0
    for names, codes in encoded_chunks(job.codec, source, job.manifest.settings, losses, (piece.start, piece.stop)):
        packed[reached : reached + len(codes)] = codes
        reached += len(codes)
        if symbols is not None and names is not None:
            symbols += names
        if on_rows is not None:
            on_rows(len(codes))
    if source.fingerprint() != part.fingerprint:
        raise FormatError(f"{part.name}: has changed since it began to be encoded; encode again when it is complete")
    return slice_bytes(piece, job.manifest.stamp, packed, symbols, losses)


def encoded_chunks(
    codec: Codec, source: Reader, settings: EncodeSettings, losses: RowLosses, rows: tuple[int, int] | None = None
) -> Iterator[tuple[list[str] | None, npt.NDArray[np.uint8]]]:
    """Rows of a source encoded chunk by chunk, on the threads of `using_threads`.

    Args:
        codec: what codes mean.
        source: the rows.
        settings: how codes are searched for.
        losses: counts how far the vectors are from those of their codes.
        rows: the first, and the one after the last; all of them where left out.

    Yields:
        Symbols, or None, and (n, row bytes) packed codes.
    """
    start, stop = rows or (0, len(source))
    at_once = min(CHUNK_ROWS, max(_FEWEST_ROWS, _CHUNK_FLOATS // codec.spec.embedding_dim))
    chunks = source.chunks(start, stop, at_once)
    while together := list(islice(chunks, _CHUNKS_TOGETHER)):
        found: dict[int, tuple[npt.NDArray[np.uint8], RowLosses]] = {}

        def encode_chunk(place: int) -> None:
            vectors = together[place][1]
            codes = codec.encode(vectors, beam=settings.beam, sweeps=settings.sweeps)
            own = RowLosses.none(codec.spec.embedding_dim)
            own.add(vectors, codec.decode(codes))
            found[place] = codec.pack(codes), own  # noqa: B023

        parallel_chunks(encode_chunk, range(len(together)))
        for place, (symbols, _) in enumerate(together):
            packed, own = found[place]
            losses.add_sums(own)
            yield symbols, packed
