"""CompiledCodes: lookups and searches of a coded table by compiled code, where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kdcode.arrays import DoubleArray, IntArray
from kdcode.code_scan import CodeScan, RowScores
from kdcode.codec import CompiledSums
from kdcode.compiled import kernels
from kdcode.search import Request, exact_nearness
from kdcode.stored_array import ArrayInFile

if TYPE_CHECKING:
    from kdcode.coded import CodedTable


class CompiledCodes:
    """What a coded table keeps for compiled code; a copy of the table begins without it."""

    def __init__(self) -> None:
        self._sums: CompiledSums | None = None
        self._scores: RowScores | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return CompiledCodes, ()

    def sums(self, table: CodedTable, rows: int) -> CompiledSums | None:
        """What decodes so many rows; None where that is not installed, not worth while, or not for this codec."""
        compiled = kernels(rows)
        if compiled is None:
            return None
        if self._sums is None and table.spec.adds_codewords and not table.codec.may_overflow:
            packed = cast(ArrayInFile, table.packed)  # rows of equal length
            self._sums = CompiledSums(compiled, table.spec, table.codec.stored, packed)
        return self._sums

    def candidates(
        self, table: CodedTable, queries: DoubleArray, request: Request, rows: range
    ) -> list[IntArray] | None:
        """For each of (q, d) queries some of the rows, in order, with its k nearest among them; None as of `sums`."""
        sums = self.sums(table, len(rows))
        if sums is None:
            return None
        if self._scores is None:
            self._scores = RowScores(table)
        scores = self._scores.of(queries, request.metric)
        if scores is None:
            return None

        def exact(query: int, rows: IntArray) -> DoubleArray:
            return exact_nearness(table, rows, queries[query], request.metric)

        return CodeScan(sums, scores, exact, request.k).candidates(rows.start, rows.stop, request.threads)
