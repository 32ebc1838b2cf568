"""open_source and open_parts: files whose rows can be read in parts, by path, URL, folder or pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import BinaryIO

from kdcode.errors import FormatError, OptionError
from kdcode.formats.catalogue import FORMATS
from kdcode.formats.format import ReadOptions
from kdcode.sources.matrix_source import MatrixPlace, MatrixSource, npy_matrix, safetensors_matrix
from kdcode.sources.parquet_source import ParquetSource
from kdcode.sources.places import Place, named_places
from kdcode.sources.source import JoinedSource, RowSource, check_alike

_MATRICES: dict[str, Callable[[BinaryIO, str, ReadOptions], MatrixPlace]] = {
    "npy": npy_matrix,
    "safetensors": safetensors_matrix,
}
FORMATS_IN_PARTS = (*_MATRICES, "parquet")
"""The formats whose rows can be read from any row on."""
_HEAD_BYTES = 16


def open_source(path: str | PathLike[str], options: ReadOptions | None = None) -> RowSource:
    """The rows of a file, or of several that are parts of one table, in the order of their names.

    Args:
        path: of a .npy, safetensors or Parquet file; of a folder of parts; a pattern such as parts/*.parquet; or a URL
            of any of these that fsspec opens.
        options: how files are read.

    Raises:
        FileError: nothing is there (also a FileNotFoundError).
        FormatError: a file is of another format, or not usable.
        MissingExtraError: it needs pyarrow or fsspec.
    """
    parts = open_parts([fspath(path)], options)
    return parts[0] if len(parts) == 1 else JoinedSource(fspath(path), parts)


def open_parts(patterns: Sequence[str], options: ReadOptions | None = None) -> list[RowSource]:
    """The parts of one table; arguments and errors as of `open_source`, for several paths or patterns.

    Parts of one pattern come in the order of their names, patterns in the order in which they are given. A file that
    several patterns name is taken once.
    """
    places = list(dict.fromkeys(place for pattern in patterns for place in named_places(pattern)))
    if not places:
        raise OptionError("expected at least one file")
    chosen = options or ReadOptions()
    if len(places) > 1:
        for name in ("symbols", "limit"):
            if getattr(chosen, name) is not None:
                raise OptionError(f"{name}: is for one file, and there are {len(places)}: {places[0].name}, …")
    parts = [_opened(place, chosen) for place in places]
    check_alike(parts)
    return parts


def can_be_parts(path: str | PathLike[str]) -> bool:
    """Whether a path names something that `open_source` reads, as far as its name tells."""
    name = fspath(path).lower()
    return any(name.endswith(FORMATS[kind].suffixes) for kind in FORMATS_IN_PARTS)


def _opened(place: Place, options: ReadOptions) -> RowSource:
    kind = _format_of(place)
    FORMATS[kind].check_options(options)
    if kind == "parquet":
        return ParquetSource(place, options)
    with place.opened() as stream:
        matrix = _MATRICES[kind](stream, place.name, options)
    return MatrixSource(place, matrix, options)


def _format_of(place: Place) -> str:
    """The format of a file, by its name, or else by its first bytes."""
    for kind in FORMATS_IN_PARTS:
        if place.name.lower().endswith(FORMATS[kind].suffixes):
            return kind
    with place.opened() as stream:
        head = stream.read(_HEAD_BYTES)
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[8:9] == b"{":
        return "safetensors"
    raise FormatError(
        f"{place.name}: its rows cannot be read in parts; {', '.join(FORMATS_IN_PARTS)} files can: "
        "convert it with kdcode.write(kdcode.read(path), 'table.npy')"
    )
