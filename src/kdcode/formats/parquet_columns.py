"""Which columns of a Parquet file hold the symbols and the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from kdcode.errors import FormatError, MissingExtraError
from kdcode.formats.format import ReadOptions

_LISTED = 20
_SHOWN = 80

Arrow: TypeAlias = Any
"""The modules and objects of pyarrow, which has no types."""


def pyarrow_for(action: str) -> Arrow:
    """The library.

    Raises:
        MissingExtraError: it is not installed, and `action` needs it.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{action} Parquet", "parquet") from None
    return pyarrow


@dataclass(frozen=True)
class Columns:
    """Which columns are read, by their places in the file: names may be empty, or those of several columns.

    Args:
        schema: all columns.
        symbols: the one of the symbols, or none.
        vectors: the one of the vectors, or those of their numbers.
    """

    schema: Arrow
    symbols: list[int]
    vectors: list[int]

    def name(self, place: int) -> str:
        """What a column is called."""
        return str(self.schema.field(place).name)

    def text_names(self) -> list[str]:
        """The column of symbols, if it is text."""
        return [self.name(place) for place in self.symbols if is_text(self.schema.field(place).type)]

    def given(self) -> list[int]:
        """The columns that are asked for, in their order; all of them where a name is that of several columns."""
        wanted = sorted(self.symbols + self.vectors)
        names = {self.name(place) for place in wanted}
        is_clear = sum(name in names for name in self.schema.names) == len(names) == len(wanted)
        return wanted if is_clear else list(range(len(self.schema)))

    def places(self, columns: list[int]) -> list[int]:
        """Where some of the columns stand among those that are asked for."""
        given = {place: number for number, place in enumerate(self.given())}
        return [given[place] for place in columns]


def chosen_columns(name: str, schema: Arrow, options: ReadOptions) -> Columns:
    """The column of symbols, and that of the vectors; or those of their numbers, a column for each.

    Raises:
        FormatError: there are no such columns, or several to choose from; it begins with the `name` of the file.
    """
    types = pyarrow_for("reading").types
    kinds = [field.type for field in schema]
    lists = [place for place, kind in enumerate(kinds) if is_vector(kind)]
    texts = [place for place, kind in enumerate(kinds) if is_text(_value_type(kind))]
    integers = [place for place, kind in enumerate(kinds) if types.is_integer(_value_type(kind))]
    floats = [place for place, kind in enumerate(kinds) if types.is_floating(kind)]
    found = ", ".join(f"{field.name} ({field.type})"[:_SHOWN] for field in list(schema)[:_LISTED])
    found += f" and {len(schema) - _LISTED} more" if len(schema) > _LISTED else ""

    def named(asked: str | None, among: list[int], what: str) -> int | None:
        if asked is None:
            return next(iter(among), None)
        places = [place for place in range(len(schema)) if schema.field(place).name == asked]
        if len(places) != 1 or places[0] not in among:
            several = f"{len(places)} columns are called so" if len(places) > 1 else f"the columns are {found}"
            raise FormatError(f"{name}: expected {asked!r} to be a column of {what}; {several}")
        return places[0]

    # Text before bytes: bytes are symbols only where there is no text.
    plain = [place for place in texts if not _is_bytes(_value_type(kinds[place]))]
    symbol = named(
        options.symbol_column,
        (plain or texts) if options.symbol_column is None else texts + integers,
        "text or integers",
    )
    vector = named(options.vector_column, lists, "lists of floats")
    symbols = [] if symbol is None else [symbol]
    if vector is not None:
        return Columns(schema, symbols, [vector])
    if not floats:
        raise FormatError(
            f"{name}: expected a column of lists of floats, or a column of floats per number; the columns are {found}"
        )
    beside = [place for place in integers if place != symbol]
    if beside:
        raise FormatError(
            f"{name}: the column {schema.field(beside[0]).name!r} holds integers beside {len(floats)} columns of "
            "floats: is it the symbols, then name it with symbol_column=, or else drop it; "
            f"the columns are {found}"
        )
    return Columns(schema, symbols, floats)


def _value_type(kind: Arrow) -> Arrow:
    """The type of a column's values: that of a dictionary's, where it is one."""
    return kind.value_type if pyarrow_for("reading").types.is_dictionary(kind) else kind


def is_text(kind: Arrow) -> bool:
    """Whether a column of this type holds text, or bytes that may be text."""
    types = pyarrow_for("reading").types
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view" or _is_bytes(kind))


def _is_bytes(kind: Arrow) -> bool:
    types = pyarrow_for("reading").types
    of_any_length = types.is_binary(kind) or types.is_large_binary(kind) or str(kind) == "binary_view"
    return bool(of_any_length or types.is_fixed_size_binary(kind))


def is_vector(kind: Arrow) -> bool:
    """Whether a column of this type holds lists of floats."""
    types = pyarrow_for("reading").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))
