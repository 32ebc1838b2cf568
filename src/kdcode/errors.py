"""What kdcode refuses, and why.

Every refusal is a `KdcodeError`. Its message says what was given, what was expected and what to do about it.
The second base of each class is what plain Python would have raised, so `except ValueError` works as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kdcode.printable import shown

_LISTED = 20
"""How many missing symbols an error lists."""

EXTRAS = {
    "torch": "torch>=2.4",
    "parquet": "pyarrow>=14",
    "remote": "fsspec>=2024.1",
    "gguf": "gguf>=0.10",
    "onnx": "onnx>=1.16",
    "faiss": "faiss-cpu>=1.8",
    "gensim": "gensim>=4.3",
    "model2vec": "model2vec>=0.10",
    "transformers": "transformers>=5.0",
    "ray": "ray[data]>=2.40",
    "figures": "matplotlib>=3.8",
}
"""The package behind each extra of kdcode."""


def install_line(extra: str) -> str:
    """The command that installs the package behind an extra, wherever kdcode itself came from."""
    return f"pip install '{EXTRAS[extra]}'"


class KdcodeError(Exception):
    """Base of every error that kdcode raises on purpose.

    Its message is one line that is safe to print: names in it, of files, tensors or columns, are escaped by `shown`.
    """

    def __str__(self) -> str:
        return shown(self._message())

    def _message(self) -> str:
        """The message before it is made safe; for subclasses that word their own."""
        return super().__str__()


class OptionError(KdcodeError, ValueError):
    """An argument or option has a value that cannot work."""


class TableError(KdcodeError, ValueError):
    """A table of vectors is not usable: wrong shape, repeated symbols, values that are not finite."""


class NoRowsError(KdcodeError, ValueError):
    """A codebook without rows was asked for what only rows can tell.

    Args:
        path: the file, where it is known.
    """

    def __init__(self, path: str = "") -> None:
        super().__init__(path)  # what pickle calls the class with again

    def _message(self) -> str:
        place = f"{self.args[0]}: " if self.args[0] else ""
        return (
            f"{place}this file is a codebook without rows; code rows with it first: "
            "`kdcode encode` and `kdcode assemble`, or `kdcode append`"
        )


class GateError(KdcodeError, ValueError):
    """A copy of a table loses more than it may: see `kdcode.evaluation.gates`."""


class RowError(KdcodeError, IndexError):
    """A row number lies outside the table."""


class IdTypeError(KdcodeError, TypeError):
    """The ids that a layer was called with are no tensor of integers."""


class ReadOnlyError(KdcodeError, TypeError):
    """A coded table was to be changed through an object that only reads it."""


class FormatError(KdcodeError, ValueError):
    """A file in somebody else's format could not be read or written."""


class StorageError(KdcodeError, ValueError):
    """A .kdc file does not follow its specification, docs/format.md."""


class LimitError(KdcodeError, ValueError):
    """A file would take far more memory than its size allows; `max_expansion` is the factor between the two."""


class DamagedFileError(StorageError):
    """The bytes of a .kdc file are not those that were written: they do not match the digests beside them."""


class FileError(KdcodeError, OSError):
    """A file cannot be opened, read or written; its kinds are also the errors that plain Python has for them."""

    def _message(self) -> str:
        return super()._message() if self.filename is None else f"{self.filename}: {self.strerror}"


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file, or no such folder to write it to."""


class FileAccessError(FileError, PermissionError):
    """The system does not let us read or write a file."""


class FolderError(FileError, IsADirectoryError):
    """A folder was given where a file was expected."""


def file_error(path: str | os.PathLike[str], action: str, error: OSError) -> FileError:
    """The refusal for a file that the system does not let us use.

    Args:
        path: the file.
        action: what cannot be done with it: "read", "written".
        error: what the system said.
    """
    reason = error.strerror or str(error)
    kinds = {FileNotFoundError: MissingFileError, PermissionError: FileAccessError, IsADirectoryError: FolderError}
    kind = next((ours for plain, ours in kinds.items() if isinstance(error, plain)), FileError)
    if kind is FolderError:
        reason = "is a folder, expected a file"
    elif kind is MissingFileError and action == "read":
        reason = "there is no such file"
    elif kind is MissingFileError and not Path(path).parent.exists():
        reason = f"cannot be {action}: there is no folder {Path(path).parent}"
    else:
        reason = f"cannot be {action}: {reason}"
    return kind(error.errno, reason, os.fspath(path))


class CheckpointError(KdcodeError, ValueError):
    """A checkpoint does not belong to this run, or cannot be read."""


class CheckpointInUseError(CheckpointError):
    """Another run uses a checkpoint right now.

    Args:
        message: which checkpoint, and what to do.
        who: "process 1234 is using it", or as much as is known.
    """

    def __init__(self, message: str, who: str = "another process is using it") -> None:
        super().__init__(message, who)  # what pickle calls the class with again
        self.who = who

    def _message(self) -> str:
        return str(self.args[0])


class LostRankError(KdcodeError, ConnectionError):
    """Another process that shares the run has ended, or does not answer."""


class MissingExtraError(KdcodeError, ImportError):
    """A feature needs an optional dependency that is not installed.

    Args:
        feature: what was asked for.
        extra: the extra of kdcode that installs the dependency.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)  # what pickle calls the class with again

    def _message(self) -> str:
        feature, extra = self.args
        package = EXTRAS[extra].partition(">=")[0]
        return f"{package} is required for {feature} and is not installed: {install_line(extra)}"


class UnknownSymbolError(KdcodeError, KeyError):
    """A symbol was asked for that the table does not hold.

    Args:
        symbol: what was asked for.
        suggestion: another spelling that the table holds.
    """

    def __init__(self, symbol: str, suggestion: str | None = None) -> None:
        super().__init__(symbol, suggestion)  # what pickle calls the class with again

    def _message(self) -> str:
        symbol, suggestion = self.args
        hint = f"; did you mean {suggestion!r}?" if suggestion is not None else ""
        return f"the table has no symbol {symbol!r}{hint}"


class UnknownSymbolsError(UnknownSymbolError):
    """Several symbols were asked for that the table does not hold.

    Args:
        missing: each symbol with another spelling that the table holds, or None.
    """

    def __init__(self, missing: Sequence[tuple[str, str | None]]) -> None:
        KeyError.__init__(self, missing)  # what pickle calls the class with again

    @property
    def symbols(self) -> list[str]:
        """All symbols that are missing."""
        return [symbol for symbol, _ in self.args[0]]

    def _message(self) -> str:
        missing = self.args[0]
        hints = (f" (did you mean {other!r}?)" if other is not None else "" for _, other in missing)
        listed = [f"{symbol!r}{hint}" for (symbol, _), hint in zip(missing, hints, strict=True)]
        more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
        return f"the table has no symbols {', '.join(listed[:_LISTED])}{more}"
