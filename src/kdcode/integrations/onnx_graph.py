"""The graph of a codec in ONNX: packed codes are unpacked, and codewords composed, by standard operators.

Codes stay packed and weights keep their stored type in the file. The graph expands all weights to float32 before it
looks anything up in them: what depends on no input is computed once by a runtime, when it opens the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdcode.codec import CodewordCodec, CodewordSpec
from kdcode.codec.spec import LSTM
from kdcode.coded import CodedTable

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

IDS, VECTORS = "ids", "vectors"
"""The names of the input and the output."""

_GATE_ORDER = [1, 2, 0, 3]
"""ONNX has the gates of an LSTM in the order i, o, f, c; ours are f, i, o, m."""


class Graph:
    """The nodes and initializers of a graph while it is built; values are known by their names."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node of one output, and return the name of that."""
        from onnx import helper

        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def tensor(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None, name: str | None = None) -> str:
        """Add an initializer, and return its name."""
        from onnx import numpy_helper

        name = name or f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(np.asarray(values, dtype)), name))
        return name

    def ints(self, *values: int) -> str:
        """Add a list of int64 numbers, and return its name."""
        return self.tensor(values, np.int64)

    def cast(self, value: str, dtype: npt.DTypeLike) -> str:
        """Add a conversion to another type."""
        from onnx import helper

        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def add_lookup(graph: Graph, coded: CodedTable, codec: CodewordCodec) -> None:
    """Add everything between ids of any shape and ids.shape + (d,) vectors."""
    # With no ids at all, onnxruntime's ReduceSum keeps the axis that it sums over, and its LSTM ends the process: one
    # row more than was asked for is composed, and cut off again.
    ids = graph.node("Concat", _checked_ids(graph, len(coded)), graph.ints(0), axis=0)
    rows = graph.node("Gather", graph.tensor(coded.checked_rows(), name="codes"), ids, axis=0)
    found = graph.node("Slice", _composed(graph, codec, rows), graph.ints(0), graph.ints(-1), graph.ints(0))
    shape = graph.node("Concat", graph.node("Shape", IDS), graph.ints(coded.embedding_dim), axis=0)
    graph.node("Reshape", found, shape, output=VECTORS, allowzero=1)


def _checked_ids(graph: Graph, count: int) -> str:
    """(n,) ids, negative ones moved out of range: `Gather` would count them from the end."""
    flat = graph.node("Reshape", IDS, graph.ints(-1))
    negative = graph.node("Less", flat, graph.tensor(0, np.int64))
    return graph.node("Where", negative, graph.tensor(count, np.int64), flat)


def _composed(graph: Graph, codec: CodewordCodec, rows: str) -> str:
    """(n, row bytes) packed rows to (n, d) float32 vectors."""
    spec, dtype = codec.spec, codec.dtype
    words = _codewords(graph, codec, _unpacked(graph, rows, spec.widths[: spec.code_length], 0))
    words = _as_type(graph, words, dtype)
    found = _lstm_sum(graph, codec, words) if spec.kind == LSTM else _block_sums(graph, spec, words)
    if spec.basis:
        found = graph.node("MatMul", found, _as_type(graph, _weight(graph, codec, "basis"), dtype))
    if spec.scale_bits:
        level = _unpacked(graph, rows, spec.widths[spec.code_length :], sum(spec.widths[: spec.code_length]))
        scales = graph.node("Gather", _weight(graph, codec, "scale_levels"), level)
        found = graph.node("Mul", found, _as_type(graph, scales, dtype))
    return found if dtype == np.float32 else graph.cast(found, np.float32)


def _unpacked(graph: Graph, rows: str, widths: Sequence[int], start: int) -> str:
    """Columns of equal widths, which begin at bit `start` of (n, row bytes) rows, as (n, columns) int64.

    A column is put together from the bytes that it lies in, as in `bitpack.unpack`, and then shifted and masked.
    """
    bits, count = widths[0], len(widths)
    first, shift = np.divmod(start + bits * np.arange(count), 8)
    most_bytes = int((shift + bits + 7).max()) // 8
    values = _bytes_at(graph, rows, first)
    if most_bytes == 1:
        kind: type[np.unsignedinteger[Any]] = np.uint8
    else:
        kind = np.uint32  # a position has at most 16 bits, so it lies in at most 3 bytes
        values = graph.cast(values, kind)
        last = (start + bits * count - 1) // 8
        for byte in range(1, most_bytes):  # past the row: its last byte, whose bits are masked off
            more = graph.cast(_bytes_at(graph, rows, np.minimum(first + byte, last)), kind)
            shifted = graph.node("BitShift", more, graph.tensor(8 * byte, kind), direction="LEFT")
            values = graph.node("BitwiseOr", values, shifted)
    if shift.any():
        values = graph.node("BitShift", values, graph.tensor(shift, kind), direction="RIGHT")
    if bits < 8 * most_bytes:
        values = graph.node("BitwiseAnd", values, graph.tensor((1 << bits) - 1, kind))
    return graph.cast(values, np.int64)


def _bytes_at(graph: Graph, rows: str, places: npt.NDArray[np.int64]) -> str:
    """(n, row bytes) rows to the (n, columns) bytes at some places."""
    return graph.node("Gather", rows, graph.tensor(places, np.int32), axis=1)


def _codewords(graph: Graph, codec: CodewordCodec, codes: str) -> str:
    """(n, D) codes to (n, D, e) float32 codewords."""
    spec = codec.spec
    codebook = graph.node("Reshape", _weight(graph, codec, "codebook"), graph.ints(-1, spec.codeword_dim))
    offsets = graph.tensor(spec.codebook_size * np.arange(spec.code_length), np.int64)
    return graph.node("Gather", codebook, graph.node("Add", codes, offsets), axis=0)


def _weight(graph: Graph, codec: CodewordCodec, name: str) -> str:
    """A stored tensor as float32, times the scales that float16 and int8 numbers have."""
    numbers, scale = codec.stored[name], codec.stored.get(f"{name}_scale")
    found = _floats(graph, numbers, name)
    return found if scale is None else graph.node("Mul", found, graph.tensor(scale, name=f"{name}_scale"))


def _floats(graph: Graph, numbers: npt.NDArray[Any], name: str) -> str:
    """Numbers in their own type, made float32 by the graph."""
    stored = graph.tensor(numbers, name=name)
    return stored if numbers.dtype == np.float32 else graph.cast(stored, np.float32)


def _as_type(graph: Graph, value: str, dtype: np.dtype[Any]) -> str:
    """Float32 numbers as the type that codewords are composed in."""
    return value if dtype == np.float32 else graph.cast(value, dtype)


def _block_sums(graph: Graph, spec: CodewordSpec, words: str) -> str:
    """(n, D, e) codewords to the (n, inner_dim) sums of the blocks; blocks of equal shape are summed together."""
    runs = [list(run) for _, run in groupby(spec.blocks, key=lambda block: (block.length, block.width))]
    parts = []
    for run in runs:
        first, last, width = run[0], run[-1], run[0].width
        part = words
        if len(runs) > 1:
            ends = graph.ints(first.positions.start), graph.ints(last.positions.stop)
            part = graph.node("Slice", words, *ends, graph.ints(1))
        if first.length > 1:
            if len(run) > 1:  # (n, blocks, positions, e)
                part = graph.node("Reshape", part, graph.ints(0, len(run), first.length, spec.codeword_dim))
            part = graph.node("ReduceSum", part, graph.ints(-2), keepdims=0)
        if width < spec.codeword_dim:  # what a codeword has beyond a narrower block is not read
            part = graph.node("Slice", part, graph.ints(0), graph.ints(width), graph.ints(-1))
        if len(run) > 1 or first.length == 1:
            part = graph.node("Reshape", part, graph.ints(0, len(run) * width))
        parts.append(part)
    return parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)


def _lstm_sum(graph: Graph, codec: CodewordCodec, words: str) -> str:
    """(n, D, e) codewords to the (n, e) sums of the hidden states of an LSTM, whose input weights are the identity."""
    width, stored = codec.spec.codeword_dim, codec.stored
    eye = graph.node("EyeLike", graph.node("ConstantOfShape", graph.ints(width, width)))  # takes no bytes of the file
    weights = graph.node("Unsqueeze", graph.node("Concat", *[eye] * 4, axis=0), graph.ints(0))
    recurrent = _floats(graph, stored["recurrent"][_GATE_ORDER].reshape(1, -1, width), "recurrent")
    bias = _floats(graph, stored["bias"][_GATE_ORDER].reshape(1, -1), "bias")
    no_bias = graph.node("ConstantOfShape", graph.ints(1, 4 * width))
    both = graph.node("Concat", bias, no_bias, axis=1)
    steps = graph.node("Transpose", words, perm=[1, 0, 2])
    states = graph.node("LSTM", steps, weights, recurrent, both, hidden_size=width)  # (D, 1, n, e)
    return graph.node("ReduceSum", states, graph.ints(0, 1), keepdims=0)
