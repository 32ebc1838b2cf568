"""Parquet files, read a row group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.formats.format import ReadOptions
from kdcode.formats.parquet_batches import ParquetBatches, naming_damage
from kdcode.limits import MemoryLimit
from kdcode.sources.places import Place
from kdcode.sources.source import Chunk, RowSource


class ParquetSource(RowSource):
    """The rows of a Parquet file.

    Args:
        place: the file.
        options: which columns hold symbols and vectors.

    Raises:
        FormatError: it is damaged, empty, or has no such columns.
    """

    def __init__(self, place: Place, options: ReadOptions) -> None:
        self.place, self.options = place, options
        with self._batches() as file:
            rows = min(len(file), options.limit or len(file))
            first = next(file.batches(0, min(1, rows)), None)
            has_symbols = file.has_symbols
        if first is None:
            raise FormatError(f"{place.name}: the file is empty, expected at least one row")
        super().__init__(place.name, rows, first.values.shape[1], has_symbols=has_symbols)

    @contextmanager
    def _batches(self) -> Iterator[ParquetBatches]:
        name = self.place.name
        with self.place.opened() as stream, naming_damage(name):
            limit = MemoryLimit(stream.seek(0, os.SEEK_END), self.options.max_expansion, name)
            stream.seek(0)
            yield ParquetBatches(stream, name, self.options, limit)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        with self._batches() as file:
            names: list[str] = []
            pieces: list[FloatArray] = []
            held = 0
            for batch in file.batches(start, stop, self.embedding_dim):
                if batch.symbols is not None:
                    names += [self._decoded(symbol, row) for row, symbol in enumerate(batch.symbols, batch.first)]
                pieces.append(batch.values)
                held += len(batch.values)
                while held >= rows:
                    yield self._taken(names, pieces, rows)
                    held -= rows
            if held:
                yield self._taken(names, pieces, held)

    def _taken(self, names: list[str], pieces: list[FloatArray], rows: int) -> Chunk:
        """The first `rows` of what is held, which are removed from it."""
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        pieces[:] = [joined[rows:]] if len(joined) > rows else []
        symbols, names[:rows] = names[:rows], []
        return symbols if self.has_symbols else None, joined[:rows]

    def _decoded(self, symbol: bytes, row: int) -> str:
        try:
            return symbol.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.name}: row {row}: the symbol is not UTF-8: {error.reason}") from None

    def fingerprint(self) -> str:
        """That of the file."""
        return self.place.fingerprint()
