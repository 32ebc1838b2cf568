"""A .kdc file whose codes and symbols come in chunks, of tables that are larger than memory.

What is written is what `kdcode.save` would write, byte by byte. The header of a file says where everything lies, and
digests cover it, so it can only be written when the number of rows and the bytes of the sorted symbols are known. Until
then codes and symbols wait in a hidden folder beside the target, which takes as much room on the disk as the file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kdcode.bitpack import bits_for
from kdcode.codec import Codec
from kdcode.codec.row_writing import Pieces
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, file_error
from kdcode.file_locks import new_temporary_folder, remove_leftovers
from kdcode.files import replaceable
from kdcode.storage import WrittenTensor, metadata_text, write_file
from kdcode.symbol_sorting import SymbolSorter
from kdcode.symbols import StoredSymbols

_PIECE_BYTES = 1 << 20
_COPIED_BYTES = 1 << 20


class TableWriter:
    """Takes the rows of a table in order, and writes the file when all are there; made by `writing_table`.

    Args:
        target: the file.
        codec: what the codes mean.
        folder: a folder for what is not in the file yet.

    Attributes:
        rows: how many rows were taken so far.
    """

    def __init__(self, target: Path, codec: Codec, folder: Path) -> None:
        self.rows = 0
        self._target, self._codec, self._folder = target, codec, folder
        self._writer = codec.row_writer()
        self._files: dict[str, BinaryIO] = {}
        self._symbols: SymbolSorter | None = None

    def add(self, packed: npt.NDArray[np.uint8], symbols: Sequence[str] | None) -> None:
        """Take the next rows.

        Args:
            packed: (n, row bytes) codes as `Codec.pack` makes them.
            symbols: n strings; None for rows that are called by their numbers.

        Raises:
            OptionError: the codes are not those of the codec, or some rows have symbols and others have not.
            TableError: a symbol cannot be stored; it is named with its row.
            FileError: the disk is full.
        """
        width = self._codec.spec.row_bytes
        if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != width:
            raise OptionError(f"codes: expected uint8 of shape (rows, {width}), got {packed.dtype} of {packed.shape}")
        if symbols is not None and len(symbols) != len(packed):
            raise OptionError(f"{len(symbols)} symbols for {len(packed)} codes: there must be one symbol per code")
        with self._naming_target():
            self._sorter(named=symbols is not None)
            self._write(self._writer.add(packed))
            if self._symbols is not None and symbols is not None:
                self._symbols.add(symbols)
        self.rows += len(packed)

    def add_table(self, table: CodedTable) -> None:
        """Take the rows of a table with the same codec, its codes and symbols as they are; it stays open until the end.

        Raises:
            OptionError, FileError: see `add`.
            StorageError: the file of the table is damaged.
        """
        with self._naming_target():
            if isinstance(table.symbols, StoredSymbols):
                first = self.rows
                ranked = ((symbol, first + row) for symbol, row in table.symbols.ranked())
                self._sorter(named=True).add_sorted(ranked, len(table))  # type: ignore[union-attr]
            elif len(table):
                self._sorter(named=False)
            at_once = max(1, _COPIED_BYTES // self._codec.spec.row_bytes)
            for start in range(0, len(table), at_once):
                self._write(self._writer.add(table.packed[start : start + at_once]))
        self.rows += len(table)

    def finish(self, provenance: Mapping[str, Any]) -> int:
        """Write the file; nothing can be added any more.

        Returns:
            The bytes of the file.

        Raises:
            TableError: two rows have the same symbol; it is named with both rows.
            OptionError: the provenance is not JSON, or too long.
            FileError: the file cannot be written.
        """
        metadata = metadata_text(self._codec.spec, self.rows, provenance)  # refused before the long part
        tensors = {name: WrittenTensor.of(array) for name, array in self._codec.tensors().items()}
        with self._naming_target():
            self._write(self._writer.rest())
            for file in self._files.values():
                file.close()
            for name, (dtype, shape) in self._writer.layout().items() if self.rows else ():
                tensors[name] = _in_file(self._folder / name, np.dtype(dtype), shape)
            if self._symbols is not None:
                for name, path in self._symbols.write()._asdict().items():
                    row = {"order": bits_for(self.rows), "starts": self._symbols.start_bytes}.get(name)
                    length = path.stat().st_size
                    tensors[f"symbols.{name}"] = _in_file(
                        path, np.dtype(np.uint8), (length // row, row) if row else (length,)
                    )
        return write_file(self._target, metadata, tensors)

    def close(self) -> None:
        """Close what is open; a file that is not finished is not written."""
        for file in self._files.values():
            with suppress(OSError):  # what a full disk did not take is not wanted any more
                file.close()

    def _write(self, pieces: Pieces) -> None:
        """Let the tensors of rows grow, each in a file of its own."""
        for name, numbers in pieces.items():
            if name not in self._files:
                self._files[name] = (self._folder / name).open("wb")
            self._files[name].write(
                np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)).data
            )

    def _sorter(self, *, named: bool) -> SymbolSorter | None:
        """What sorts the symbols; None for rows without. The first rows decide which it is."""
        if not self.rows and named and self._symbols is None:
            self._symbols = SymbolSorter(self._folder)
        if named != (self._symbols is not None):
            have = ("have", "these have none") if self._symbols is not None else ("have no", "these have some")
            raise OptionError(f"the rows before {have[0]} symbols and {have[1]}; give all of them symbols, or none")
        return self._symbols

    @contextmanager
    def _naming_target(self) -> Iterator[None]:
        """Let errors of the system name the file that cannot be written, and not a part of it."""
        try:
            yield
        except OSError as error:
            raise file_error(self._target, "written", error) from error


@contextmanager
def writing_table(path: str | os.PathLike[str], codec: Codec) -> Iterator[TableWriter]:
    """A writer for a file of any number of rows; `finish` writes it, and without that nothing is written.

        with writing_table("large.kdc", codebook.codec) as writer:
            for symbols, vectors in chunks:
                writer.add(codec.pack(codec.encode(vectors)), symbols)
            writer.finish({"learner": "..."})

    A file that is there stays until the new one is whole. Codes and symbols wait in a folder `.kdcode-….tmp` beside it,
    which goes when the block ends; where the process is killed, the next one that writes there removes it.

    Raises:
        FileError: the file cannot be written there.
    """
    target = Path(path)
    try:
        parent = replaceable(target).parent
        remove_leftovers(parent)
        folder, descriptor = new_temporary_folder(parent)
    except OSError as error:
        raise file_error(target, "written", error) from error
    writer: TableWriter | None = None
    try:
        writer = TableWriter(target, codec, folder)
        yield writer
    finally:
        if writer is not None:
            writer.close()
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor >= 0:
            os.close(descriptor)


def _in_file(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> WrittenTensor:
    """A tensor whose bytes are those of a file."""

    def pieces() -> Iterator[bytes]:
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece

    return WrittenTensor(dtype.newbyteorder("<"), shape, pieces())
