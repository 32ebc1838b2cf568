"""What a file may make its reader allocate: a stated multiple of its own size, so that no small file takes all memory.

Of a .kdc file, the limit covers what the file decides: loading it, looking up a row or a symbol, going over all of its
symbols, and the working memory of encoding, neighbours and verification. It does not cover what the caller asks for by
name: all codes, a decoded table, the vectors of many rows. Of other formats, it covers the table that is read.

A .kdc file takes a small multiple of its size in any case, and only symbols, which share bytes, could grow by more. So
the default is there for files that were made to do harm, and no honest table comes near it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.errors import LimitError, OptionError

MAX_EXPANSION = 100
"""How many times its own bytes a file may take in memory, unless the caller says otherwise."""

ALWAYS_ALLOWED = 256 << 20
"""Bytes that any file may take: small files of good will expand the most."""


@dataclass(frozen=True)
class MemoryLimit:
    """The memory that one file may take: `max_expansion` times its bytes, and at least 256 MiB.

    Args:
        file_bytes: the bytes of the file.
        max_expansion: how many times as much memory it may take.
        name: the name of the file, which errors begin with where nobody else adds it.

    Raises:
        OptionError: `max_expansion` is no number of at least 1.
    """

    file_bytes: int
    max_expansion: float = MAX_EXPANSION
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.max_expansion, int | float) or not self.max_expansion >= 1:
            raise OptionError(f"max_expansion must be a number of at least 1, got {self.max_expansion!r}")

    @property
    def allowed(self) -> float:
        """The bytes of memory that the file may take."""
        return max(ALWAYS_ALLOWED, self.max_expansion * self.file_bytes)

    def check(self, what: str, nbytes: int) -> None:
        """Refuse an allocation before it is made.

        Args:
            what: what needs the memory, by the name that the file has for it: "the tensor 'weight', 9 x 10 float32".
            nbytes: how much it needs.

        Raises:
            LimitError: it is more than the file may take.
        """
        if nbytes > self.allowed:
            needed = -(-nbytes // max(1, self.file_bytes))
            place = f"{self.name}: " if self.name else ""
            raise LimitError(
                f"{place}{what} would take {nbytes:,} bytes of memory; a file of {self.file_bytes:,} bytes may take "
                f"{self.allowed:,.0f}; if you trust this file, set max_expansion= to {needed} or more"
            )
