"""What a report is about: two tables, what was measured between them, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kdcode.arrays import DoubleArray
from kdcode.codec import Sizes
from kdcode.coded import CodedTable
from kdcode.evaluation import CodeUse, Evaluation, LevelUse
from kdcode.evaluation.matching import RowPairs
from kdcode.provenance import CURVE
from kdcode.symbols import RowNumbers

BEFORE, AFTER = "before", "after"


class SizePart(NamedTuple):
    """Some bytes of one of the two tables, `BEFORE` or `AFTER`."""

    table: str
    part: str
    bytes: int
    meaning: str


@dataclass(frozen=True)
class About:
    """What a page says of its tables that is not in them.

    Args:
        original: the name of the original table.
        compressed: the name of the compressed one.
        file_bytes: the size of its file; None where it has none.
        command: the command that made the report.
        made_by: the command that makes the compressed table; None where it is not known.
    """

    original: str = "the original"
    compressed: str = "the compressed table"
    file_bytes: int | None = None
    command: str | None = None
    made_by: str | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """Two tables and everything that was measured between them.

    Args:
        about: their names.
        pairs: their rows.
        found: what is lost.
        use: how codewords or levels are used; None where the compressed table has none.
        weights: (n,) of the rows; None where all are alike.
    """

    about: About
    pairs: RowPairs
    found: Evaluation
    use: CodeUse | LevelUse | None
    weights: DoubleArray | None

    @property
    def coded(self) -> CodedTable | None:
        """The compressed table, if it is one of codes."""
        copy = self.pairs.tables[1]
        return copy if isinstance(copy, CodedTable) else None

    @property
    def sizes(self) -> Sizes | None:
        """What the parts of a coded table take."""
        return None if self.coded is None else self.coded.sizes

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How the codes were learned; of a table that is part of another, what is known of that one."""
        own = {} if self.coded is None else self.coded.provenance
        whole = own.get("taken_from")
        return whole if isinstance(whole, dict) else own

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """How the error fell while codes were learned, as steps and errors; empty where the file does not say."""
        told = self.provenance.get(CURVE)
        steps, losses = (told.get("steps"), told.get("losses")) if isinstance(told, dict) else (None, None)
        if not isinstance(losses, list) or type(steps) is not int or steps < 1:
            return []
        places = ((steps * (place + 1) / len(losses), loss) for place, loss in enumerate(losses))
        return [(step, float(loss)) for step, loss in places if type(loss) in (int, float) and abs(loss) < 1e9]

    @property
    def bytes_before(self) -> int:
        """What the rows that the compressed table has take as float32, with the same symbols beside them."""
        copy = self.pairs.tables[1]
        return 4 * len(copy) * copy.embedding_dim + self.symbol_bytes

    @property
    def symbol_bytes(self) -> int:
        """What the symbols of a coded table take; 0 where it is not known."""
        return 0 if self.sizes is None else self.sizes.symbols

    @property
    def bytes_after(self) -> int:
        """The size of the compressed file, or of what would be in it."""
        if self.about.file_bytes is not None:
            return self.about.file_bytes
        copy = self.pairs.tables[1]
        return 4 * len(copy) * copy.embedding_dim if self.sizes is None else self.sizes.total

    @property
    def size_parts(self) -> list[SizePart]:
        """Where the bytes are, before and after."""
        copy, sizes = self.pairs.tables[1], self.sizes
        shape = f"{len(copy):,} rows of {copy.embedding_dim:,} float32 numbers"
        parts = [
            SizePart(BEFORE, "vectors", 4 * len(copy) * copy.embedding_dim, shape),
            SizePart(BEFORE, "symbols", self.symbol_bytes, "their names, compressed"),
        ]
        if sizes is None:
            parts.append(SizePart(AFTER, "table", self.bytes_after, "vectors and symbols"))
        else:
            parts += [
                SizePart(AFTER, "codes", sizes.codes, "what is kept of each row"),
                SizePart(AFTER, "codebook", sizes.codebook, "what all rows share"),
                SizePart(AFTER, "composition", sizes.composition, self._composed),
                SizePart(AFTER, "symbols", sizes.symbols, "their names, compressed"),
                SizePart(AFTER, "overhead", self.bytes_after - sizes.total, "header and digests"),
            ]
        return [part for part in parts if part.bytes > 0]

    @property
    def _composed(self) -> str:
        """What the part `composition` is."""
        if self.coded is not None and self.coded.codewords is None:
            return "how codes become vectors: rotation, tables of levels"
        return "how codewords become vectors: basis, LSTM, scales"

    @property
    def ratio(self) -> float:
        """How many times smaller the compressed table is, with its symbols."""
        return self.bytes_before / max(self.bytes_after, 1)

    @property
    def what(self) -> str:
        """What rows are called."""
        return "rows" if isinstance(self.pairs.tables[0].symbols, RowNumbers) else "symbols"
