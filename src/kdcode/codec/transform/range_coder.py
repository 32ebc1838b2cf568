"""A range coder over many rows at once: each row is a stream of bytes of its own.

This is arithmetic coding with whole bytes, as in Martin's range encoder (1979): a row is a number in [0, 1), every
value narrows the interval that it may lie in, by its frequency, and bytes leave as soon as they are certain. Bytes
after the end of a row count as zero, so a row takes no more than a bit beyond the information in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.level_tables import ESCAPE_BITS, PRECISION, TOTAL, LevelTables
from kdcode.errors import StorageError

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_WHOLE = 1 << 32
_LEAST = 1 << 24
"""A range below this is made 256 times as large, and a byte leaves or enters."""
_RENEWALS = 2
"""How often that may be needed after one value: 24 bits less the 15 of a frequency are 9, so twice."""
_AHEAD = 4
"""Bytes that a reader holds."""
_NO_VALUE = "codes: a row is a number that stands for no level"
"""Ranges are divided without their remainder, which no value has: a writer leaves it out, and damage may lead there."""


class RangeReader:
    """Values of (n, bytes) rows, one value of every row at a time."""

    def __init__(self, rows: Bytes) -> None:
        count, length = rows.shape
        self._bytes = np.concatenate([rows, np.zeros((count, _AHEAD + 1), dtype=np.uint8)], axis=1)
        self._last = length + _AHEAD
        self._all = np.arange(count)
        self._place = np.full(count, _AHEAD)
        self._range = np.full(count, _WHOLE)
        self._code = self._bytes[:, :_AHEAD].astype(np.int64) @ (1 << np.array([24, 16, 8, 0]))

    def read(self, tables: LevelTables | Centroids, which: Numbers) -> Numbers:
        """(n,) code values, of the (n,) tables that they are coded with.

        Raises:
            StorageError: a row is a number that no value has, or an escaped value has more bits than any may have.
        """
        unit = self._range >> PRECISION
        place = self._code // unit
        if int(place.max(initial=0)) >= TOTAL:
            raise StorageError(_NO_VALUE)
        at = np.searchsorted(tables.places, which * TOTAL + place, side="right") - 1
        self._code -= tables.starts[at] * unit
        self._range = tables.sizes[at] * unit
        for _ in range(_RENEWALS):
            self._renew(self._all)
        found = at - tables.first[which]
        escaped = np.flatnonzero(found == tables.escapes[which])
        if len(escaped):
            found[escaped] += self._read_excess(escaped)
        return np.asarray(found)

    def capacity(self, lengths: Numbers) -> Numbers:
        """(n,) how many bits rows of (n,) bytes still have room for."""
        return _capacity(self._range, self._place - _AHEAD, lengths)

    def read_bits(self, counts: Numbers) -> Numbers:
        """(n,) numbers of (n,) bits, each after a leading one."""
        found = np.ones(len(counts), dtype=np.int64)
        for bit in range(int(counts.max(initial=0))):
            some = np.flatnonzero(counts > bit)
            found[some] = 2 * found[some] + self._read_bit(some)
        return found

    def _read_excess(self, rows: Numbers) -> Numbers:
        """Exp-Golomb codes: as many ones as there are bits after the first, a zero, and these bits."""
        longer, bits = rows, np.zeros(len(rows), dtype=np.int64)
        while len(longer):
            more = self._read_bit(longer) == 1
            longer = longer[more]
            bits += np.isin(rows, longer)
            if bits.max(initial=0) > ESCAPE_BITS:
                raise StorageError(f"codes: a level has more than {ESCAPE_BITS} bits")
        value = np.ones(len(rows), dtype=np.int64)
        for bit in range(int(bits.max(initial=0))):
            some = bits > bit
            value[some] = 2 * value[some] + self._read_bit(rows[some])
        return value - 1

    def _read_bit(self, rows: Numbers) -> Numbers:
        half = self._range[rows] >> 1
        found = self._code[rows] >= half
        self._code[rows] -= half * found
        if (self._code[rows] >= half).any():
            raise StorageError(_NO_VALUE)
        self._range[rows] = half
        self._renew(rows)
        return found.astype(np.int64)

    def _renew(self, rows: Numbers) -> None:
        small = rows[self._range[rows] < _LEAST]
        self._range[small] <<= 8
        self._code[small] = self._code[small] << 8 | self._bytes[small, np.minimum(self._place[small], self._last)]
        self._place[small] += 1


class RangeWriter:
    """Rows of bytes for values, one value of every row at a time; undone by `RangeReader`."""

    def __init__(self, count: int, most_bytes: int) -> None:
        self._bytes = np.zeros((count, most_bytes + 2 * _AHEAD), dtype=np.int64)
        self._all = np.arange(count)
        self._length = np.zeros(count, dtype=np.int64)
        self._low = np.zeros(count, dtype=np.int64)
        self._range = np.full(count, _WHOLE)
        self._last = most_bytes + _AHEAD

    def write(self, tables: LevelTables | Centroids, which: Numbers, values: Numbers) -> None:
        """Write (n,) code values with (n,) tables."""
        escapes = tables.escapes[which]
        at = tables.first[which] + np.minimum(values, escapes)
        unit = self._range >> PRECISION
        self._low += tables.starts[at] * unit
        self._range = tables.sizes[at] * unit
        self._carry(self._all)
        for _ in range(_RENEWALS):
            self._renew(self._all)
        escaped = np.flatnonzero(values >= escapes)
        if len(escaped):
            self._write_excess(escaped, values[escaped] - escapes[escaped])

    def capacity(self, lengths: Numbers) -> Numbers:
        """(n,) how many bits rows of (n,) bytes still have room for; below 0 where they have become too long."""
        return _capacity(self._range, self._length, lengths)

    def write_bits(self, numbers: Numbers) -> None:
        """Write (n,) numbers in bits, without their leading one."""
        counts = bit_lengths(numbers) - 1
        for bit in range(int(counts.max(initial=0))):
            some = np.flatnonzero(counts > bit)
            self._write_bit(some, numbers[some] >> (counts[some] - 1 - bit) & 1)

    def finish(self) -> Bytes:
        """(n, bytes) rows, zeros after their end."""
        best, is_found = self._low.copy(), np.zeros(len(self._low), dtype=bool)
        for zeros in range(32, -1, -1):  # the number in the interval that ends in the most zeros
            rounded = -(-self._low >> zeros) << zeros
            found = (rounded < self._low + self._range) & ~is_found
            best[found] = rounded[found]
            is_found |= found
        self._low = best
        self._carry(self._all)
        for _ in range(_AHEAD):
            self._out(self._all)
        return self._bytes.astype(np.uint8)

    def _write_excess(self, rows: Numbers, excess: Numbers) -> None:
        value = excess + 1
        bits = bit_lengths(value) - 1
        for bit in range(int(bits.max()) + 1):
            some = bits >= bit
            self._write_bit(rows[some], (bits[some] > bit).astype(np.int64))
        for bit in range(int(bits.max())):
            some = bits > bit
            self._write_bit(rows[some], value[some] >> (bits[some] - 1 - bit) & 1)

    def _write_bit(self, rows: Numbers, bit: Numbers) -> None:
        half = self._range[rows] >> 1
        self._low[rows] += half * bit
        self._range[rows] = half
        self._carry(rows)
        self._renew(rows)

    def _carry(self, rows: Numbers) -> None:
        over = rows[self._low[rows] >= _WHOLE]
        self._low[over] -= _WHOLE
        place = np.minimum(self._length[over], self._last) - 1
        while len(over):
            self._bytes[over, place] += 1
            full = self._bytes[over, place] > 255
            over, place = over[full], place[full]
            self._bytes[over, place] = 0
            place = place - 1

    def _renew(self, rows: Numbers) -> None:
        small = rows[self._range[rows] < _LEAST]
        self._range[small] <<= 8
        self._out(small)

    def _out(self, rows: Numbers) -> None:
        self._bytes[rows, np.minimum(self._length[rows], self._last)] = self._low[rows] >> 24  # longer ones do not fit
        self._length[rows] += 1
        self._low[rows] = (self._low[rows] << 8) & (_WHOLE - 1)


def _capacity(ranges: Numbers, renewals: Numbers, lengths: Numbers) -> Numbers:
    """(n,) how often the ranges can be halved before they are shorter than the last bit of a row."""
    return 8 * (lengths - renewals) - 32 + bit_lengths(ranges) - 1


def bit_lengths(numbers: Numbers) -> Numbers:
    """(n,) bits of (n,) numbers of at least 1."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
