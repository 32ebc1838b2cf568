"""How many values the row groups of a Parquet file claim to hold, from its footer.

pyarrow tells this too, but a footer that is damaged in the right place makes it end the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_STRUCT, _LIST = 12, 9
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5  # numbers of fields in the Parquet specification


def values_in_row_groups(stream: BinaryIO) -> list[int]:
    """The most values that any column of each row group of an open file has.

    Raises:
        ValueError, IndexError: the footer is damaged.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    length = int.from_bytes(stream.read(4), "little")
    if length > size - 8:
        raise ValueError(f"the footer claims {length} bytes in a file of {size}")
    stream.seek(size - 8 - length)
    footer = _Compact(stream.read(length))
    counts: list[int] = []
    for number, kind in footer.fields():
        if number == _ROW_GROUPS and kind == _LIST:
            counts = [_most_values(footer) for _ in footer.structs()]
        else:
            footer.skip(kind)
    return counts


def _most_values(footer: _Compact) -> int:
    """The most values of a column of the row group that begins here."""
    most = 0
    for number, kind in footer.fields():
        if number == _COLUMNS and kind == _LIST:
            most = max((_column_values(footer) for _ in footer.structs()), default=0)
        else:
            footer.skip(kind)
    return most


def _column_values(footer: _Compact) -> int:
    values = 0
    for number, kind in footer.fields():
        if number != _META_DATA or kind != _STRUCT:
            footer.skip(kind)
            continue
        for inner, inner_kind in footer.fields():
            if inner == _NUM_VALUES:
                values = footer.integer()
            else:
                footer.skip(inner_kind)
    return values


class _Compact:
    """Thrift's compact protocol, read from the beginning to the end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and the type of each field of a struct; whoever asks reads or skips its value."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def structs(self) -> Iterator[None]:
        """One turn for each struct of a list."""
        kind, count = self._list()
        if kind != _STRUCT:
            raise ValueError("the footer is damaged")
        for _ in range(count):
            yield

    def integer(self) -> int:
        """A number with a sign."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int, *, listed: bool = False) -> None:
        """Pass over a value; booleans have a byte only where they are `listed`."""
        if kind in (1, 2):
            self._place += listed
        elif kind in (4, 5, 6):
            self._varint()
        elif kind in (3, 7):
            self._place += 1 if kind == 3 else 8
        elif kind == 8:
            length = self._varint()
            self._place += length
        elif kind in (9, 10):
            inner, count = self._list()
            for _ in range(count):
                self.skip(inner, listed=True)
        elif kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self.skip(kinds >> 4, listed=True)
                self.skip(kinds & 15, listed=True)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        else:
            raise ValueError("the footer is damaged")

    def _list(self) -> tuple[int, int]:
        """The type of the elements of a list, and how many there are; each takes a byte or more."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if count > len(self._data) - self._place:
            raise ValueError("the footer is damaged")
        return head & 15, count

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 70:
                raise ValueError("the footer is damaged")
        return value | byte << shift
