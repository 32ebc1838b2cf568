"""GGUF, the files of llama.cpp: one matrix of a model, float or quantised, with the model's tokens as symbols."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.io import matrices
from kdcode.io.format import ReadOptions
from kdcode.io.lines import SYMBOL_BYTES, RowCollector
from kdcode.io.reader import Progress
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

INPUT_TABLE, OUTPUT_TABLE = "token_embd.weight", "output.weight"
"""What every model calls the vectors of its tokens, and those of its output layer where they differ."""

TOKENS = "tokenizer.ggml.tokens"
_NUMBERS_AT_ONCE = 1 << 20
_FLOATS = ("F64", "F32", "F16")
"""Types of tensors that stay in the file, memory-mapped."""

_HEADER_VALUE_BYTES = 1000
"""Memory that a value of the header takes, at most: several Python objects."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of tokens in a GGUF file, or the matrix that was named.

    Symbols are the model's tokens as the file spells them, if there is one for each row.
    """
    try:
        import gguf
        import gguf.quants
    except ImportError as error:
        raise MissingExtraError("reading GGUF", "gguf") from error
    limit = options.memory_limit(path)
    try:
        file = _bounded_reader(gguf)(path, limit)
        tokens = file.tokens
        tensors = {tensor.name: tensor for tensor in file.tensors}
        shapes, others = {}, {}
        for name, tensor in tensors.items():
            if _is_readable(gguf, tensor.tensor_type):
                shapes[name] = tuple(map(int, tensor.shape[::-1]))
            else:
                others[name] = f"of the type {tensor.tensor_type.name}"
        wanted = INPUT_TABLE if options.tensor is None and INPUT_TABLE in tensors else options.tensor
        name = matrices.choose(path, shapes, wanted, others)
        if 0 in shapes[name]:
            raise FormatError(f"{path}: {name}: the matrix is empty, shape {shapes[name]}")
        rows = shapes[name][0]
        kept = options.rows_of(rows)
        is_named = options.symbols is None and _names_rows(path, name, rows, tokens)
        symbols = _symbols(path, tokens[:kept], limit) if is_named else None
        matrix = _matrix(gguf, tensors[name], kept, limit, on_progress)
    except KdcodeError:
        raise
    except Exception as error:  # damage ends in errors of numpy and of the enums of gguf
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise FormatError(f"{path}: not a usable GGUF file: {reason}") from None
    return matrices.named_table(path, options, matrix, rows) if symbols is None else VectorTable(symbols, matrix)


def _bounded_reader(gguf: Any) -> Any:  # noqa: ANN401 - the package has no types
    """A class like `gguf.GGUFReader`, which stays within the file and reads arrays of metadata at once.

    GGUFReader believes every count in a file: an array of 2^60 numbers takes all memory. It also makes several arrays
    for each token, which takes 7 seconds and 260 MB for 150,000 tokens.
    """

    class BoundedReader(gguf.GGUFReader):  # type: ignore[misc]
        def __init__(self, path: Path, limit: MemoryLimit) -> None:
            self._limit, self._values = limit, 0
            super().__init__(path)
            if self.byte_order != "I":
                raise ValueError("it is in another byte order; expected little-endian")

        @property
        def tokens(self) -> list[bytes]:
            """The tokens of the model; none if the file has none."""
            field = self.fields.get(TOKENS)
            types = [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING]
            return field.parts[3:] if field is not None and field.types == types else []

        def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:  # noqa: ANN401
            self._check(int(offset), int(count) * np.dtype(dtype).itemsize)
            return super()._get(int(offset), dtype, count, override_order)

        def _check(self, offset: int, nbytes: int) -> None:
            """Refuse a value outside of the file, or more values than memory allows."""
            if nbytes > len(self.data) - offset:
                raise ValueError(f"a value at byte {offset} takes {nbytes} bytes of {len(self.data)}; is it truncated?")
            self._values += 1
            self._limit.check(f"{self._values} values of its header", self._values * _HEADER_VALUE_BYTES)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            types = gguf.GGUFValueType
            if raw_type != types.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)  # type: ignore[no-any-return]
            kind = types(int(self._get(orig_offs, np.uint32)[0]))
            count, start = int(self._get(orig_offs + 4, np.uint64)[0]), orig_offs + 12
            if kind == types.ARRAY:
                end = start
                for _ in range(count):
                    end += self._get_field_parts(end, types.ARRAY)[0]
                return end - orig_offs, [], [], [types.ARRAY, kind]
            if kind == types.STRING:
                self._check(start, 8 * count)
                self._limit.check(f"{count} tokens", count * SYMBOL_BYTES)
                strings, end = _strings(memoryview(self.data), start, count)
                return end - orig_offs, strings, [], [types.ARRAY, kind]
            numbers = self._get(start, self.gguf_scalar_to_np[kind], count)
            return 12 + numbers.nbytes, [numbers], [], [types.ARRAY, kind]

    return BoundedReader


def _strings(raw: memoryview, start: int, count: int) -> tuple[list[bytes], int]:
    """Strings, each with its length before it, and where they end."""
    strings = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", raw, start)
        if length > len(raw) - start - 8:
            raise ValueError(f"a token ends at byte {start + 8 + length} of {len(raw)}; is it truncated?")
        strings.append(bytes(raw[start + 8 : start + 8 + length]))
        start += 8 + length
    return strings, start


def _is_readable(gguf: Any, kind: Any) -> bool:  # noqa: ANN401 - a gguf.GGMLQuantizationType
    """Whether the numbers of a type can be had as floats."""
    if kind.name in _FLOATS:
        return True
    try:
        gguf.quants.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _matrix(
    gguf: Any,  # noqa: ANN401 - the package has no types
    tensor: Any,  # noqa: ANN401 - a gguf.ReaderTensor
    rows: int,
    limit: MemoryLimit,
    on_progress: Progress | None,
) -> npt.NDArray[Any]:
    """The first rows of a tensor: memory-mapped where numpy has the type, else converted to float32 piece by piece."""
    stored: npt.NDArray[Any] = tensor.data[:rows]
    if tensor.tensor_type.name in _FLOATS:
        return stored
    dim, nbytes = int(tensor.shape[0]), stored.nbytes
    limit.check(f"the tensor {tensor.name[:80]!r} as float32", 4 * rows * dim)
    matrix: FloatArray = np.empty((rows, dim), dtype=np.float32)
    at_once = max(1, _NUMBERS_AT_ONCE // dim)
    for first in range(0, rows, at_once):
        piece = np.array(stored[first : first + at_once])
        with np.errstate(all="ignore"):  # a number that is not finite is refused with its row
            matrix[first : first + at_once] = gguf.quants.dequantize(piece, tensor.tensor_type)
        if on_progress is not None:
            on_progress(min(first + at_once, rows) * nbytes // rows, nbytes)
    return matrix


def _names_rows(path: Path, name: str, rows: int, tokens: list[bytes]) -> bool:
    """Whether the tokens are the symbols of a matrix. The model's two tables of tokens must have a row for each."""
    if tokens and len(tokens) != rows and name in (INPUT_TABLE, OUTPUT_TABLE):
        raise FormatError(
            f"{path}: expected one token in {TOKENS} for each of the {rows} rows of {name}, found {len(tokens)}; "
            "name a file of symbols with symbols="
        )
    return len(tokens) == rows


def _symbols(path: Path, tokens: list[bytes], limit: MemoryLimit) -> list[str]:
    """Tokens as text; refused where one is not UTF-8 or stands twice."""
    rows = RowCollector(path, "token", limit)
    for number, token in enumerate(tokens):
        rows.add(number, token)
    return list(rows.numbers)
