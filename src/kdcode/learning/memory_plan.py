"""How much memory learning takes, and how many rows it can learn from within a limit."""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.codec.sizes import memory_bytes
from kdcode.errors import OptionError
from kdcode.memory import available_memory
from kdcode.options import BatchOptions, CompressOptions

BASE_BYTES = 900 << 20
"""What Python and torch take, and the tables of a search for codes, which do not grow with the rows."""

_TABLES = 6
"""Learning holds the rows so many times at most: as given, standardised, rotated, with what is computed from them."""

_LOGITS = 3
"""Learners by gradients hold the logits of all codes so many times: with their gradients and step sizes."""

SAMPLE_ROWS = 1 << 18
"""Rows that a codebook is learned from where nothing else is asked for and there are more: 1,024 for each of 256
codewords."""

_LEAST_ROWS = 1000


@dataclass(frozen=True)
class MemoryPlan:
    """How a table is learned from.

    Args:
        rows: of the table.
        sample: rows that are learned from; the others are only encoded.
        memory: bytes that this takes at most.
    """

    rows: int
    sample: int
    memory: int

    @property
    def is_streamed(self) -> bool:
        """Whether the table is too large to be learned from as a whole, and is read a piece at a time."""
        return self.sample < self.rows


def plan_memory(
    rows: int, dim: int, options: CompressOptions, memory: str | int | None = None, sample: int | None = None
) -> MemoryPlan:
    """How many rows to learn from, and what memory that takes.

    Args:
        rows: of the table.
        dim: d.
        options: how it is compressed.
        memory: bytes that may be used, like 4GB; by default half of what is free, or the least that works.
        sample: rows to learn from; where left out, all of them where the memory allows it, and otherwise as many as it
            allows, up to `SAMPLE_ROWS`.

    Raises:
        OptionError: `memory` is no size or too small, or `sample` is.
    """
    per_row = _row_bytes(dim, options)
    needed = BASE_BYTES + per_row * min(rows, _LEAST_ROWS)
    allowed = max(available_memory() // 2, needed) if memory is None else memory_bytes("memory", memory)
    if allowed < needed:
        raise OptionError(f"memory: {allowed:,} bytes are too few for {dim} dimensions; expected {needed:,} or more")
    most = (allowed - BASE_BYTES) // per_row
    if sample is not None and sample < 1:
        raise OptionError(f"sample must be at least 1, got {sample}")
    if sample is not None and min(sample, rows) > most:
        wanted = BASE_BYTES + per_row * min(sample, rows)
        raise OptionError(f"sample: {sample:,} rows take {wanted:,} bytes of memory, and {allowed:,} may be used")
    chosen = min(rows, sample or (rows if most >= rows else min(most, SAMPLE_ROWS)))
    return MemoryPlan(rows, chosen, BASE_BYTES + per_row * chosen)


def _row_bytes(dim: int, options: CompressOptions) -> int:
    """Memory that each row takes which is learned from."""
    numbers = _TABLES * dim
    if isinstance(options.learning, BatchOptions):
        numbers += _LOGITS * options.codebook_size * options.code_length
    return 4 * numbers
