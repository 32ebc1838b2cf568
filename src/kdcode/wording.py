"""Numbers in words, wherever they are shown: on a terminal or in a page."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """One, or one and another, or one, another and a third."""
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def percent(share: float) -> str:
    """A share in whole percent; what is not all is never called 100%, and what is there never 0%."""
    whole = round(100 * share)
    if whole == 100 and share < 1:
        return "more than 99%"
    return "less than 1%" if whole == 0 and share > 0 else f"{whole}%"


def shared_codes(shared: int, count: int, what: str = "symbols") -> str:
    """How many symbols have no code of their own, in words."""
    if not shared:
        return f"none: each of the {count:,} {what} has a code of its own"
    return f"{shared:,} of {count:,} {what} have the same code as another"
