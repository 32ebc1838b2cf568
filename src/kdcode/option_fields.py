"""Fields of options dataclasses: a default, a help text, and the choices or bounds that values are checked against."""

from __future__ import annotations

import operator
import os
from dataclasses import field, fields
from typing import Any

from kdcode.errors import OptionError


def option(default: Any, text: str, **rules: Any) -> Any:  # noqa: ANN401 - a dataclass field of any type
    """A field with its help text; rules are `choices`, or the bounds `low`, `high` and `above` of a number."""
    return field(default=default, metadata={"help": text, **rules})


def check_fields(options: Any) -> None:  # noqa: ANN401 - any dataclass
    """Check every value of a dataclass against its field, and make numpy numbers and paths plain ones."""
    for item in fields(options):
        value = getattr(options, item.name)
        kind = str(item.type).removesuffix(" | None")
        if kind in ("bool", "int", "float", "str") and not (value is None and item.default is None):
            object.__setattr__(options, item.name, _checked(item.name, value, kind, item.metadata))


def _checked(name: str, value: Any, kind: str, rules: Any) -> Any:  # noqa: ANN401 - option values of any type
    choices = rules.get("choices")
    if choices:
        if value not in choices:
            raise OptionError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        return value
    if kind == "str":
        if not isinstance(value, str | os.PathLike):
            raise OptionError(f"{name} must be a string, got {value!r}")
        return os.fspath(value)
    if kind == "bool":
        if type(value).__name__ not in ("bool", "bool_"):  # numpy's is another type
            raise OptionError(f"{name} must be True or False, got {value!r}")
        return bool(value)
    low, high, above = (rules.get(bound) for bound in ("low", "high", "above"))
    expected = "an integer" if kind == "int" else "a number"
    expected += f" above {above}" if above is not None else f" from {low} to {high}" if high else f" of at least {low}"
    number = _number(value, kind)
    fits = number is not None and (above is None or number > above) and (low is None or number >= low)
    if not fits or (high is not None and number is not None and number > high):
        raise OptionError(f"{name} must be {expected}, got {value!r}")
    return number


def _number(value: Any, kind: str) -> int | float | None:  # noqa: ANN401 - option values of any type
    """The plain number that a value is, or None."""
    if type(value).__name__ in ("bool", "bool_") or isinstance(value, str):
        return None
    try:
        return operator.index(value) if kind == "int" else float(value)
    except (TypeError, ValueError):
        return None
