from typing import Any

import numpy
import numpy.typing


def isa() -> str:
    """The instruction set in use: plain, avx2, avx512 or neon."""

def sources() -> str:
    """A digest of the files of the core that this module was built from."""

def pack(values: numpy.typing.NDArray[numpy.integer[Any]], widths: bytes, packed: numpy.typing.NDArray[numpy.uint8]) -> None:
    """
    Pack (n, columns) integers into (n, row bytes) bytes; a value that does not fit is refused.
    """

def unpack(packed: numpy.typing.NDArray[numpy.uint8], widths: bytes, values: numpy.typing.NDArray[numpy.integer[Any]]) -> None:
    """
    Unpack (n, row bytes) bytes into (n, columns) values of uint8, uint16 or uint32.
    """

def value_at(packed: bytes, position: int, bits: int) -> int:
    """One of many values of `bits` bits each that stand one after another."""

class FileStamp:
    """
    The size and time of change of an open file, when it was last looked at.
    """

    def __init__(self, descriptor: int) -> None: ...

    def changed(self) -> tuple[int, int] | None:
        """
        What the file is like now, its size and time of change in nanoseconds; None where both are as they were.
        """

    def seen(self, size: int, changed: int) -> None:
        """Take a change for known."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

class Symbols:
    """Sorted symbols as docs/format.md has them; they read the arrays."""

    def __init__(self, count: int, strings: bytes, blocks: numpy.typing.NDArray[numpy.uint8], starts: numpy.typing.NDArray[numpy.uint8], order: numpy.typing.NDArray[numpy.uint8]) -> None: ...

    def watch(self, good: numpy.typing.NDArray[numpy.bool], blocks: int, starts: int, order: int, check: object, notice_changes: object, stamp: object | None) -> None:
        """
        Check what is read of a file: which pieces are good, where the arrays begin, and who checks the others.
        """

    def find(self, symbol: str) -> int | None:
        """The row of a symbol."""

    def at(self, ranks: numpy.typing.NDArray[numpy.int64]) -> list[str]:
        """The symbols of (n,) ranks."""

    def text(self, first: int, end: int) -> bytes:
        """
        The symbols of the blocks from `first` to `end`, each followed by 0xFF.
        """

    def verify(self, first: int, end: int, seen: numpy.typing.NDArray[numpy.uint8]) -> None:
        """
        Check blocks against the specification, and set the bits of their rows in `seen`.
        """

class SymbolBuilder:
    """Codes sorted symbols; each is followed by 0xFF, and comes twice."""

    def __init__(self, count: int) -> None: ...

    def survey(self, text: bytes) -> tuple[str, int] | None:
        """
        Check the next symbols and learn from them; what is wrong with which of them, if anything is.
        """

    def learn(self) -> bytes:
        """The codes, after all symbols were surveyed."""

    def write(self, text: bytes) -> None:
        """Code the next symbols."""

    def finish(self) -> None:
        """Complete the last block."""

    def take(self) -> tuple[bytes, bytes, bytes]:
        """
        The heads, the blocks and the starts (pairs of uint64) since these were last taken.
        """

def pack_starts(pairs: bytes, head_bytes: int, place_bits: int) -> bytes:
    """
    Pack the starts of a SymbolBuilder, once it is known how many bytes of heads there are.
    """
