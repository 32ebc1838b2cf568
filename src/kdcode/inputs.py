"""Tables in whatever form people have them: arrays, tensors, layers, DataFrames, dicts, gensim's vectors, files.

Other libraries are recognised by what their objects look like and are never imported: numpy is enough. A new kind of
source is a row in `_KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kdcode import storage
from kdcode.arrays import FloatArray
from kdcode.coded import CodedTable
from kdcode.errors import TableError
from kdcode.io import read
from kdcode.table import VectorTable

TableSource: TypeAlias = object
"""What `as_table` takes; see there."""

_ACCEPTED = (
    "a VectorTable, a CodedTable, a 2-D array or tensor, an nn.Embedding, a DataFrame, a dict of symbol to vector, "
    "gensim's KeyedVectors, a list of vectors, or the path of a file"
)
_FRAMES = ("pandas", "polars")
_UNNAMED = "a table needs a name for every row"


def as_table(
    source: TableSource,
    symbols: Sequence[str] | Mapping[str, int] | None = None,
    weights: npt.ArrayLike | None = None,
) -> VectorTable:
    """A `VectorTable` made of almost anything that holds vectors; numbers are shared, not copied, where that works.

    Args:
        source: one of
            a VectorTable, or a CodedTable, which is decoded;
            a 2-D array, or a list of vectors: rows are called "0", "1", …;
            a torch tensor or parameter of any float type, on any device;
            an `nn.Embedding` or any other layer with a 2-D `weight`;
            a pandas or polars DataFrame: its numeric columns are the vectors, and its one column of strings, or its
            index of strings, the symbols. A column of lists, where there is one, holds the vectors instead;
            a pandas or polars Series of lists, or a pyarrow Table, or anything else with `to_pandas()`;
            a dict of symbol to vector;
            gensim's KeyedVectors, or a model that has them as `wv`;
            the path of a .kdc file or of any file that `kdcode.read` takes.
        symbols: one for each row, instead of those that the source has; or a dict of symbol to row, such as
            `tokenizer.get_vocab()`.
        weights: (N,) how much each row counts; see `VectorTable`.

    Raises:
        TableError: the source is of another kind, or holds something that is no table.
        FormatError: a file cannot be read.
    """
    table = _table_of(source)
    if symbols is None and weights is None:
        return table
    named = table.symbols if symbols is None else _in_row_order(symbols, len(table))
    return VectorTable(named, table.matrix, table.weights if weights is None else weights)


def as_rows(source: TableSource) -> VectorTable | CodedTable:
    """What `as_table` gives, but a CodedTable and a .kdc file stay coded: enough for whoever reads chunk by chunk."""
    if isinstance(source, CodedTable):
        return source
    if _is_kdc(source):
        return storage.load(source)  # type: ignore[arg-type]  # a path, as its name tells
    return _table_of(source)


def _table_of(source: object) -> VectorTable:
    for is_one, table_of in _KINDS:
        if is_one(source):
            return table_of(source)
    hint = "; give its .toarray()" if hasattr(source, "toarray") else ""
    raise TableError(f"cannot make a table of {_kind(source)}{hint}; expected {_ACCEPTED}")


def _of_path(path: Any) -> VectorTable:  # noqa: ANN401 - a str or PathLike
    return storage.load(path).to_table() if _is_kdc(path) else read(path)


def _is_kdc(source: object) -> bool:
    return isinstance(source, str | PathLike) and fspath(source).lower().endswith(".kdc")


def _keyed_vectors(source: object) -> Any:  # noqa: ANN401 - gensim's KeyedVectors
    """The KeyedVectors of gensim, or those of a model; None where it is something else."""
    keyed = getattr(source, "wv", source)
    return keyed if hasattr(keyed, "index_to_key") and hasattr(keyed, "vectors") else None


def _of_keyed_vectors(source: object) -> VectorTable:
    keyed = _keyed_vectors(source)
    return VectorTable(list(keyed.index_to_key), keyed.vectors)


def _in_row_order(symbols: Sequence[str] | Mapping[str, int], rows: int) -> Sequence[str]:
    """Symbols as a sequence; those of a dict of symbol to row in the order of their rows."""
    if not isinstance(symbols, Mapping):
        return symbols
    by_row = {row: symbol for symbol, row in symbols.items()}
    missing = next((row for row in range(rows) if row not in by_row), None)
    if missing is not None:
        raise TableError(f"symbols: row {missing} of {rows} has no symbol in the dict; {_UNNAMED}, so add one for it")
    if len(symbols) != rows:
        raise TableError(f"symbols: the dict has {len(symbols)} symbols for the {rows} rows of the table")
    return [by_row[row] for row in range(rows)]


def _library(source: object) -> str:
    """The top-level package that an object's type comes from."""
    return type(source).__module__.partition(".")[0]


def _kind(source: object) -> str:
    """An object's type in the words of an error."""
    name = type(source).__qualname__
    return name if type(source).__module__ == "builtins" else f"{_library(source)}'s {name}"


def _is_tensor(source: object) -> bool:
    return all(hasattr(source, name) for name in ("detach", "is_floating_point", "numpy"))


def _numbers(tensor: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - a torch tensor
    """The numbers of a tensor as an array, which shares its memory where numpy has the type."""
    if tensor.device.type == "meta":
        raise TableError("the tensor is on the meta device and holds no numbers; load its weights first")
    try:
        here = tensor.detach().cpu()
        if here.is_quantized:
            here = here.dequantize()
        if str(here.layout) != "torch.strided":
            here = here.to_dense()
        if here.is_floating_point() and str(here.dtype) not in ("torch.float16", "torch.float32", "torch.float64"):
            here = here.float()  # bfloat16 and the 8-bit floats, which numpy does not have
        array: npt.NDArray[Any] = here.resolve_neg().numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:  # nested tensors, and types that torch only stores
        reason = str(error).strip().partition("\n")[0][:100]
        raise TableError(
            f"the numbers of a tensor of {getattr(tensor, 'dtype', 'unknown type')} cannot be had: {reason}; "
            "give a plain one, as in tensor.float()"
        ) from None
    return array


def _weight_of(module: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - an nn.Module
    """The matrix of an embedding layer."""
    weight: Any = getattr(module, "weight", None)
    if _is_tensor(weight) and weight.ndim == 2:
        return _numbers(weight)
    found = f"has a weight of shape {tuple(weight.shape)}" if _is_tensor(weight) else "has no weight of its own"
    hint = "model.get_input_embeddings()" if hasattr(module, "get_input_embeddings") else "model.embedding"
    raise TableError(
        f"{type(module).__name__} {found}; expected a layer with a weight of shape (rows, dimension) such as "
        f"nn.Embedding: give the layer itself, as in {hint}"
    )


def _is_list_of_rows(source: object) -> bool:
    """Whether a source is a list of vectors, or an array of objects that is one."""
    objects = isinstance(source, np.ndarray) and source.dtype == object and source.ndim == 1
    return isinstance(source, list | tuple) or objects


def _stacked(vectors: Iterable[Any], what: str, names: Sequence[object] | None = None) -> FloatArray:
    """An (N, d) matrix of N vectors: arrays, tensors or lists.

    Args:
        vectors: N of them.
        what: what one of them is called in errors: row, vector.
        names: what tells one from another in errors; their numbers where left out.
    """
    listed = list(vectors)
    if not listed:
        raise TableError(f"found no {what}s: the source is empty; a table needs at least one row")

    def label(number: int) -> str:
        return f"{what} {number}" if names is None else f"the {what} of {names[number]!r}"

    dim = len(_vector(listed[0], label(0)))
    matrix = np.empty((len(listed), dim), dtype=np.float32)
    for number, vector in enumerate(listed):
        row = _vector(vector, label(number))
        if len(row) != dim:
            raise TableError(f"{label(number)} has {len(row)} numbers, {label(0)} has {dim}; all must have as many")
        with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused with the table
            matrix[number] = row
    return matrix


def _vector(given: Any, label: str) -> npt.NDArray[Any]:  # noqa: ANN401 - whatever a row may be
    """A (d,) array of numbers, or a refusal that names the row by its label."""
    try:
        row = _numbers(given) if _is_tensor(given) else np.asarray(given)
    except ValueError:  # a list of lists of several lengths
        raise TableError(f"{label} holds lists, expected a vector: a list of numbers") from None
    if row.ndim != 1 or row.dtype.kind not in "fiu":
        found = f"{_kind(given)} {given!r:.40}" if row.ndim == 0 else f"{row.dtype} of shape {row.shape}"
        raise TableError(f"{label} is {found}; expected a vector of real numbers: one dimension, no text")
    return row


def _of_mapping(vectors: Mapping[str, Any]) -> VectorTable:
    symbols = list(vectors)
    return VectorTable(symbols, _stacked(vectors.values(), "vector", symbols))


def _of_series(series: Any) -> VectorTable:  # noqa: ANN401 - a pandas or polars Series
    symbols = _index_symbols(series)
    values = series.to_numpy()
    if values.ndim == 1 and values.dtype != object:
        raise TableError(
            f"a Series of {values.dtype} is no table; expected a DataFrame of numeric columns or a Series of lists"
        )
    return VectorTable(symbols, _of_lists(values, symbols))


def _of_frame(frame: Any) -> VectorTable:  # noqa: ANN401 - a pandas or polars DataFrame
    """The table of a DataFrame: numeric columns or one column of lists, and symbols of a column or of the index."""
    if not hasattr(frame, "to_numpy"):
        raise TableError(f"cannot make a table of {_kind(frame)}; call .collect() for a DataFrame")
    columns = [frame.iloc[:, i] if hasattr(frame, "iloc") else frame.to_series(i) for i in range(len(frame.columns))]
    kinds = [_column_kind(column) for column in columns]
    names = [str(name) for name in frame.columns]
    at = {kind: [i for i in range(len(kinds)) if kinds[i] == kind] for kind in ("number", "text", "list", "other")}
    said = {kind: _columns([names[i] for i in places]) for kind, places in at.items()}
    if at["other"]:
        raise TableError(f"{said['other']} neither numbers, strings nor lists of numbers; drop what is no vector")
    if len(at["list"]) > 1 or not at["list"] + at["number"]:
        found = f"{said['list']} lists" if at["list"] else "it has no column of numbers"
        raise TableError(f"a DataFrame needs numeric columns or one column of lists as vectors; {found}")
    symbols = _index_symbols(frame)
    if len(at["text"]) > 1 or (at["text"] and symbols is not None):
        index = ", and its index too" if symbols is not None else ""
        raise TableError(f"{said['text']} strings{index}; keep the one that holds the symbols and drop the rest")
    for place in at["text"]:
        symbols = _strings(columns[place], names[place])
    for place in at["list"]:
        return VectorTable(symbols, _of_lists(columns[place].to_numpy(), symbols))
    numbers = frame if len(at["number"]) == len(columns) else _picked(frame, at["number"])
    return VectorTable(symbols, _of_numeric(numbers))


def _picked(frame: Any, places: list[int]) -> Any:  # noqa: ANN401 - a pandas or polars DataFrame
    """The columns at some places."""
    return frame.iloc[:, places] if hasattr(frame, "iloc") else frame[:, places]


def _of_numeric(frame: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - a pandas or polars DataFrame
    """The matrix of numeric columns, with NaN where a value is missing."""
    matrix: npt.NDArray[Any] = frame.to_numpy()
    return frame.to_numpy(dtype=np.float64, na_value=np.nan) if matrix.dtype == object else matrix


def _of_lists(values: npt.NDArray[Any], symbols: list[str] | None) -> npt.NDArray[Any]:
    """The matrix of a column of lists; polars gives a matrix at once where all are as long by their type."""
    return values if values.ndim == 2 else _stacked(values, "row", symbols)


def _columns(names: Sequence[str]) -> str:
    """Columns as the subject of an error: «column 'a' holds», «columns 'a', 'b' hold»."""
    listed = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"column {listed} holds" if len(names) == 1 else f"columns {listed} hold"


def _column_kind(column: Any) -> str:  # noqa: ANN401 - a pandas or polars Series
    """What a column holds, by its type, or by its first value that is not missing: number, text, list or other."""
    values = column[:1].to_numpy()
    if values.dtype == object:
        values = (column.dropna() if hasattr(column, "dropna") else column.drop_nulls())[:1].to_numpy()
    if values.ndim == 2 or (values.size and isinstance(values[0], list | tuple | np.ndarray)):
        return "list"
    if values.dtype.kind in "fiu":
        return "number"
    return "text" if values.size and isinstance(values[0], str) else "other"


def _strings(column: Any, name: str) -> list[str]:  # noqa: ANN401 - a pandas or polars Series
    symbols = list(column.to_numpy())
    for row, symbol in enumerate(symbols):
        if not isinstance(symbol, str):
            raise TableError(f"column {name!r} has {symbol!r} in row {row}, expected a string; {_UNNAMED}")
    return symbols


def _index_symbols(frame: Any) -> list[str] | None:  # noqa: ANN401 - a DataFrame or Series
    """The symbols of a pandas index of strings; None where there is no index or it merely counts the rows."""
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "to_numpy"):
        return None
    values = index.to_numpy()
    if np.array_equal(values, np.arange(len(values))):
        return None
    for row, symbol in enumerate(values):
        if not isinstance(symbol, str):
            raise TableError(
                f"the index has {symbol!r} in row {row}, expected strings, which name the rows, or 0, 1, 2, …; call "
                "reset_index(drop=True) to drop it, or set frame.index = frame.index.map(str) to keep it"
            )
    return list(values)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], VectorTable]], ...] = (
    (lambda source: isinstance(source, VectorTable), lambda table: table),
    (lambda source: isinstance(source, CodedTable), lambda coded: coded.to_table()),
    (lambda source: isinstance(source, str | PathLike), _of_path),
    (lambda source: isinstance(source, Mapping), _of_mapping),
    (lambda source: _library(source) in _FRAMES and hasattr(type(source), "columns"), _of_frame),
    (lambda source: _library(source) in _FRAMES, _of_series),
    (lambda source: _keyed_vectors(source) is not None, _of_keyed_vectors),
    (_is_tensor, lambda tensor: VectorTable(None, _numbers(tensor))),
    (
        lambda source: callable(getattr(source, "parameters", None)),
        lambda module: VectorTable(None, _weight_of(module)),
    ),
    (lambda source: hasattr(source, "to_pandas"), lambda frame: _of_frame(frame.to_pandas())),
    (_is_list_of_rows, lambda rows: VectorTable(None, _stacked(rows, "row"))),
    (lambda source: hasattr(source, "__array__"), lambda array: VectorTable(None, np.asarray(array))),
)
"""How each kind of source is recognised, and how it becomes a table; the first that fits is taken."""
