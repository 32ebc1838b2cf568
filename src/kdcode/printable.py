"""Text of strangers made safe to print: symbols, names of files, tensors and columns, what a file says of itself."""

from __future__ import annotations

import re

_HIDDEN = re.compile("[\U000e0000-\U000e0fff]")
"""Tags and variation selectors: never seen, and enough of them to hide a text in another one."""


def shown(text: str) -> str:
    r"""A text for a line of output, which it can neither break nor steer; done twice it is the same as done once.

    What Python calls not printable is written as in a string literal: `\n`, `\x1b`, `\u202e`. These are line breaks,
    the control characters that start an escape sequence, characters that turn the direction of text around or are not
    seen at all, spaces that look like a plain one, and the bytes of a file name that are not UTF-8.
    """
    if is_safe(text):
        return text
    return "".join(
        character if is_safe(character) else character.encode("unicode_escape").decode("ascii") for character in text
    )


def is_safe(text: str) -> bool:
    """Whether `shown` leaves a text as it is."""
    return text.isprintable() and (text.isascii() or not _HIDDEN.search(text))
