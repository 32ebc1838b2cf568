"""Decimal numbers in text: told from words one by one, and read many at a time."""

from __future__ import annotations

import re
import warnings

import numpy as np

from kdcode.arrays import FloatArray

FLOAT32_END = 2.0**128 - 2.0**103
"""Numbers of this size and beyond round to an infinite float32."""

_NUMBER_BYTES = b"0123456789+-.eE"


def is_number(field: bytes) -> bool:
    """Whether `field` is written like a decimal number; `nan`, `1_000` and `0x10` are not."""
    if not field or field.translate(None, _NUMBER_BYTES):
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


def number_fault(field: bytes) -> str | None:
    """Why `field` is no number for a float32 vector, or None if it is one."""
    if not is_number(field):
        return "expected a finite decimal number"
    return "too large for float32" if abs(float(field)) >= FLOAT32_END else None


def parsed(joined: bytes, count: int, separator: str) -> FloatArray | None:
    """The (count,) float32 numbers of fields that are joined by a separator; None unless all are finite numbers.

    Where the separator is a space, fields must not hold any.
    """
    # Numpy takes tabs for spaces and runs of them for one. With no other characters than these, a field between spaces
    # gives one number or, if it is empty, none; so the right total means one number per field. With another separator
    # numpy passes over spaces around a number and stops at an empty field, but takes a field of spaces alone for -1.
    if joined.translate(None, _NUMBER_BYTES + b" " + separator.encode()):
        return None
    if separator != " " and b" " in joined and re.search(f"(?:^|{separator}) *(?:$|{separator})".encode(), joined):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how older numpy reports unreadable text
            values: FloatArray = np.fromstring(joined, dtype=np.float32, sep=separator)
    except (ValueError, DeprecationWarning):
        return None
    return values if values.size == count and np.isfinite(values).all() else None
