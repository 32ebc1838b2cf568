"""The symbols of a matrix, one per line of a text file, read from any line on."""

from __future__ import annotations

from collections.abc import Iterator

from kdcode.errors import FormatError
from kdcode.formats.blocks import BLOCK_BYTES, GZIP_MAGIC, MAX_LINE_BYTES
from kdcode.sources.places import Place

_MARK_LINES = 1 << 16
"""Where every so many lines begin is remembered, so that reading can start near any of them."""


class SymbolLines:
    """Goes over the file once to find where lines are.

    Args:
        place: the file.
        rows: how many lines it must have.
        owner: the file of the matrix, for messages.

    Raises:
        FormatError: it has another number of lines, or is gzipped.
    """

    def __init__(self, place: Place, rows: int, owner: str) -> None:
        self.place = place
        self._marks = [0]
        lines, ends_with_break, reached = 0, True, 0
        with place.opened() as stream:
            while block := stream.read(BLOCK_BYTES):
                if not reached and block.startswith(GZIP_MAGIC):
                    raise FormatError(f"{place.name}: is gzipped, and cannot be read from any line on; unpack it first")
                spot = block.find(b"\n")
                while spot >= 0:
                    lines += 1
                    if lines % _MARK_LINES == 0:
                        self._marks.append(reached + spot + 1)
                    spot = block.find(b"\n", spot + 1)
                reached += len(block)
                ends_with_break = block.endswith(b"\n")
        lines += not ends_with_break
        if lines != rows:
            raise FormatError(
                f"{place.name}: expected one symbol for each of the {rows} rows of {owner}, found {lines} lines; "
                "if this is not the file of its symbols, name one with symbols="
            )

    def read(self, start: int, stop: int) -> Iterator[str]:
        """The symbols of the rows from `start` to before `stop`.

        Raises:
            FormatError: a line is empty, too long or not UTF-8; the message has its number, counted from 1.
        """
        mark = start // _MARK_LINES
        with self.place.opened() as stream:
            stream.seek(self._marks[mark])
            for row in range(mark * _MARK_LINES, stop):
                line = stream.readline(MAX_LINE_BYTES + 1)
                if len(line) > MAX_LINE_BYTES:
                    raise self._refusal(row, f"is longer than {MAX_LINE_BYTES} bytes; this is not a text file")
                if row >= start:
                    yield self._symbol(row, line.removesuffix(b"\n").removesuffix(b"\r"))

    def _symbol(self, row: int, line: bytes) -> str:
        if not line:
            raise self._refusal(row, "expected a symbol, found an empty line")
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._refusal(row, f"the symbol is not UTF-8: {error.reason}") from None

    def _refusal(self, row: int, reason: str) -> FormatError:
        return FormatError(f"{self.place.name}: line {row + 1}: {reason}")
