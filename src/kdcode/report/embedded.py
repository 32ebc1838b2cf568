"""Data inside the page: JSON that no symbol can break out of, and arrays as base64."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.report.templates import Html

_ESCAPED = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""What ends a script element or begins a comment in it, and line breaks that JSON allows and scripts once did not."""


def json_text(value: object) -> Html:
    r"""JSON for a script element; `<` becomes `\u003c` there, so that nothing in it is taken for markup."""
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return Html(text)


def packed_array(numbers: npt.NDArray[Any]) -> dict[str, str]:
    """An array for `Report.array` of the page: the name of its type, and its little-endian bytes in base64."""
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return {"type": numbers.dtype.name, "data": base64.b64encode(little.tobytes()).decode("ascii")}


def small_numbers(rows: npt.NDArray[np.int64], below: int) -> npt.NDArray[Any]:
    """Numbers in [0, below) in the smallest type that the page has for them."""
    return rows.astype(np.uint16 if below <= 1 << 16 else np.uint32)


def _finite(value: object) -> object:
    """The value with None where a number is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
