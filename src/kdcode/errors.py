"""What kdcode refuses, and why.

Every refusal is a `KdcodeError`. Its message says what was given, what was expected and what to do about it.
The second base of each class is what plain Python would have raised, so `except ValueError` works as well.
"""


class KdcodeError(Exception):
    """Base of every error that kdcode raises on purpose."""


class OptionError(KdcodeError, ValueError):
    """An argument or option has a value that cannot work."""


class TableError(KdcodeError, ValueError):
    """A table of vectors is not usable: wrong shape, repeated symbols, values that are not finite."""


class RowError(KdcodeError, IndexError):
    """A row number lies outside the table."""


class FormatError(KdcodeError, ValueError):
    """A file in somebody else's format could not be read or written."""


class StorageError(KdcodeError, ValueError):
    """A .kdc file does not follow its specification, docs/format.md."""


class CheckpointError(KdcodeError, ValueError):
    """A checkpoint does not belong to this run, or cannot be read."""


class MissingExtraError(KdcodeError, ImportError):
    """A feature needs an optional dependency that is not installed.

    Args:
        feature: what was asked for.
        extra: the extra of kdcode that installs the dependency.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)  # what pickle calls the class with again

    def __str__(self) -> str:
        feature, extra = self.args
        return f"{feature} needs an optional dependency: pip install 'kdcode[{extra}]'"


class UnknownSymbolError(KdcodeError, KeyError):
    """A symbol was asked for that the table does not hold.

    Args:
        symbol: what was asked for.
        suggestion: another spelling that the table holds.
    """

    def __init__(self, symbol: str, suggestion: str | None = None) -> None:
        super().__init__(symbol, suggestion)  # what pickle calls the class with again

    def __str__(self) -> str:
        symbol, suggestion = self.args
        hint = f"; did you mean {suggestion!r}?" if suggestion is not None else ""
        return f"the table has no symbol {symbol!r}{hint}"
