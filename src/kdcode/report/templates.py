"""The templates of the page, filled in: whatever is put into one is escaped, but for what came out of another."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from string import Template


class Html(str):
    """Markup that was made by `filled` or is ours: put into a template as it is."""

    __slots__ = ()


def filled(name: str, /, **values: object) -> Html:
    """A template of `assets/` with values in place of its `$names`.

    Args:
        name: path of the file below `assets/`, without `.html`.
        **values: one for each name; all but `Html` are escaped.
    """
    safe = {key: value if isinstance(value, Html) else html.escape(str(value)) for key, value in values.items()}
    return Html(Template(asset(f"{name}.html")).substitute(safe))


def filled_each(name: str, rows: Iterable[Mapping[str, object]]) -> Html:
    """A template filled in for every row, one after another."""
    return Html("".join(filled(name, **row) for row in rows))


@cache
def asset(path: str) -> str:
    """The text of a file below `assets/`."""
    return files("kdcode.report").joinpath("assets", path).read_text(encoding="utf-8").rstrip("\n")
