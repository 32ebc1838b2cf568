"""Commands for people to copy into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kdcode.printable import is_safe

_QUOTED = {"'": "\\'", "\\": "\\\\"}


def command_line(name: str, arguments: Sequence[str], flags: Sequence[str] = ()) -> str:
    """A kdcode command with its arguments as they were given, quoted for bash and zsh.

    Args:
        name: the command.
        arguments: file names and symbols; there is no null byte in them, which a command line cannot hold.
        flags: flags and their values.
    """
    is_flag_like = any(word.startswith("-") for word in arguments)
    words = [*flags, "--", *arguments] if is_flag_like else [*arguments, *flags]
    return " ".join(map(_quoted, ["kdcode", name, *words]))


def _quoted(word: str) -> str:
    r"""One word of a command line; with characters that are not safe to print it becomes `$'a\x1bb'`."""
    if is_safe(word):
        return shlex.quote(word)
    return "$'" + "".join(_QUOTED.get(one, one) if is_safe(one) else _bytes(one) for one in word) + "'"


def _bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
