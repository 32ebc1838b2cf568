"""What happens to lines and rows that cannot be used: the file is refused, or they are skipped and counted."""

from __future__ import annotations

import warnings
from pathlib import Path

from kdcode.errors import FormatError


class SkippedLinesWarning(UserWarning):
    """Lines of a file were left out because `on_bad_line="skip"` asked for it.

    Args:
        path: the file.
        count: how many lines or rows were left out.
        first: which was the first, and why.
    """

    def __init__(self, path: Path, count: int, first: str) -> None:
        super().__init__(f"{path}: skipped {count} bad lines or rows, the first: {first}")
        self.count = count
        self.first = first


class BadRows:
    """Refuses or counts the bad rows of one file.

    Args:
        path: the file, for messages.
        policy: "refuse" or "skip".
        unit: what a row is called in this format: "line" or "row".
    """

    def __init__(self, path: Path, policy: str, unit: str = "line") -> None:
        self.count = 0
        self._path = path
        self._policy = policy
        self._unit = unit
        self._first = ""

    def found(self, number: int, reason: str) -> None:
        """Note that row `number` cannot be used.

        Raises:
            FormatError: the policy is to refuse.
        """
        place = f"{self._unit} {number}: {reason}"
        if self._policy == "refuse":
            raise FormatError(f"{self._path}: {place}")
        self.count += 1
        self._first = self._first or place

    def warn(self, calls_deep: int) -> None:
        """Report what was skipped, once, if anything was.

        Args:
            calls_deep: how many calls below `kdcode.formats.read` the caller is, so that the warning points to the
                line of the user's that asked for the table.
        """
        if self.count:
            warnings.warn(SkippedLinesWarning(self._path, self.count, self._first), stacklevel=calls_deep + 3)
