"""CoreLookup: vectors of a layer on the CPU where no gradients are asked for, by one call of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._C import _get_tracing_state
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from kdcode.arrays import FloatArray
from kdcode.codec import CodewordRows, CodewordSpec, Transform, TransformRowDecoder
from kdcode.codec_torch import StoredCodec
from kdcode.codec_torch.twin import TensorsSeen
from kdcode.errors import RowError
from kdcode.nn.layer_content import buffer_of
from kdcode.threads import parallel_chunks

if TYPE_CHECKING:
    from kdcode.nn.coded_layer import CodedLayer

_ROWS_FOR_THREADS = 8192
"""Rows that each thread decodes at a time, where there are more of them."""

Rows = npt.NDArray[np.int64]
Decoder = CodewordRows | TransformRowDecoder
_address = Tensor.data_ptr


class CoreLookup:
    """Decodes ids of a layer from views of its tensors.

    What it keeps is where the tensors are, and never what is in them: numbers that are written into a tensor count at
    once. Views are made anew when the layer has other tensors, or when one of them has moved. That one shrinks or grows
    in place cannot be seen: see `CodedLayer.refresh`. A copy of the layer makes views of its own.
    """

    def __init__(self) -> None:
        self._rows: Decoder | None = None
        self._count = 0
        self._seen: TensorsSeen | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return CoreLookup, ()

    def vectors(self, layer: CodedLayer, ids: Tensor) -> Tensor | None:
        """ids.shape + (d,) vectors, that of the padding id zero; None where torch's operators have to make them.

        Raises:
            RowError: an id is negative, or not below `num_embeddings`.
            StorageError: a code is not one of the codec.
        """
        if type(ids) is not Tensor or ids.dtype is not torch.int64 or not ids.is_cpu or is_compiling():
            return None
        # Straight to the tensors: the attributes of a module take longer to find than a row takes to decode.
        codec: Any = layer._modules["codec"]
        weights = codec._parameters
        if _get_tracing_state() is not None or (weights and torch.is_grad_enabled() and _want_gradients(weights)):
            return None
        try:
            _address(ids)
            rows = self._rows_of(layer, codec)
        except RuntimeError:  # inside of torch.func.vmap and the like, tensors have no numbers of their own
            return None
        if rows is None:
            return None
        found = torch.from_numpy(_decoded(rows, layer, ids.contiguous()))
        if ids.ndim != 1:
            found = found.view(*ids.shape, layer.embedding_dim)
        return found if codec.dtype is torch.float32 else found.to(codec.dtype)

    def scores(self, layer: CodedLayer, hidden: Tensor) -> FloatArray | None:
        """(n, d) hidden vectors to their (n, N) products with all rows of transform codes, padding counted as others.

        None where torch's operators have to make them.
        """
        if hidden.dtype is torch.float64 or not has_numbers(hidden):
            return None
        rows = self._rows_of(layer, layer._modules["codec"])
        if not isinstance(rows, TransformRowDecoder):
            return None
        return rows.scores(hidden.detach().double().numpy(), torch.get_num_threads())

    def refresh(self) -> None:
        """Forget where the tensors are."""
        self._seen = None

    def _rows_of(self, layer: CodedLayer, codec: Any) -> Decoder | None:  # noqa: ANN401 - a module
        """What decodes from the tensors that are there now; None where the core cannot."""
        own, seen = tensors_of(layer, codec), self._seen
        if seen is None or self._count != layer.num_embeddings or not seen.are(own):
            self._rows = _rows_from(layer)
            values = isinstance(self._rows, TransformRowDecoder)  # which has copies of what all rows share
            self._seen, self._count = TensorsSeen(own, places_of(layer), values=values), layer.num_embeddings
        return self._rows


def has_numbers(tensor: Tensor) -> bool:
    """Whether a tensor lies in the memory of the CPU, and no graph is recorded; torch.func.vmap has no such tensors."""
    if type(tensor) is not Tensor or not tensor.is_cpu or is_compiling() or _get_tracing_state() is not None:
        return False
    try:
        _address(tensor)
    except RuntimeError:
        return False
    return True


def tensors_of(layer: CodedLayer, codec: Any) -> list[Tensor | None]:  # noqa: ANN401 - a module
    """All that vectors are made from: codes and weights, and what else belongs to them."""
    buffers = layer._buffers
    rows = buffers["code_rows"], buffers["row_classes"], buffers["row_starts"], buffers["row_breaks"]
    return [*rows, *codec._parameters.values(), *codec._buffers.values()]


def places_of(layer: CodedLayer) -> tuple[Tensor, ...]:
    """Tensors that have moved where any has: codes, and the first weight."""
    weights: Any = layer.codec._parameters or layer.codec._buffers
    return layer.code_rows, next(tensor for tensor in weights.values() if tensor is not None)


def _want_gradients(weights: Mapping[str, Tensor | None]) -> bool:
    return any(weight is not None and weight.requires_grad for weight in weights.values())


def _rows_from(layer: CodedLayer) -> Decoder | None:
    """What decodes from the tensors of a layer; None where they are not those that the core takes."""
    codec, spec, form = layer.codec, layer.codec.spec, layer.form
    if not isinstance(spec, CodewordSpec):
        return _block_decoder(layer)
    tensors = codec.stored_tensors()
    if tensors is None:
        return None
    if not all(tensor.is_cpu and tensor.is_contiguous() for tensor in (layer.code_rows, *tensors.values())):
        return None
    if forward_ad._current_level >= 0:  # tensors may have tangents, which would be lost
        return None
    arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    layout = spec.tensor_layout()
    floats = form != "packed" or layer.trainable
    for name, array in arrays.items():
        dtype, shape = layout[name]
        if array.shape != shape or array.dtype != ("float32" if floats else dtype):
            return None
    code_rows: Tensor = layer.code_rows[: layer.num_embeddings]
    bits = 8 * code_rows.element_size()
    widths = None if form == "packed" else (bits, bits)
    return CodewordRows(spec, arrays, code_rows.numpy().view(np.uint8), widths)


def _block_decoder(layer: CodedLayer) -> TransformRowDecoder | None:
    """What decodes packed transform codes from the tensors of a layer; None where these are not on the CPU."""
    if layer.form != "packed" or not isinstance(layer.codec, StoredCodec):
        return None
    own = [tensor for tensor in tensors_of(layer, layer.codec) if tensor is not None]
    if any(not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_inference() for tensor in own):
        return None
    codec = layer.codec.in_numpy()
    assert isinstance(codec, Transform)  # noqa: S101 - for the type checker
    layout = codec.spec.row_layout(layer.num_embeddings)
    rows = {name: layer.get_buffer(buffer_of(name)).numpy().view(dtype) for name, (dtype, _) in layout.items()}
    return TransformRowDecoder(codec, codec.rows_of_tensors(rows, layer.num_embeddings))


def _decoded(rows: Decoder, layer: CodedLayer, ids: Tensor) -> FloatArray:
    """(n, d) vectors of n ids, contiguous in memory."""
    count, padding = ids.numel(), -1 if layer.padding_idx is None else layer.padding_idx
    vectors = np.empty((count, layer.embedding_dim), dtype=np.float32)
    try:
        if count > _ROWS_FOR_THREADS or not rows.decode_ids(ids, vectors, padding):
            _decode_on_threads(rows, ids.numpy().reshape(-1), vectors, padding)
    except RowError:
        layer.check_range(*(int(end) for end in ids.aminmax()))
        raise
    return vectors


def _decode_on_threads(rows: Decoder, picked: Rows, vectors: FloatArray, padding: int) -> None:
    """Write the vectors of rows, on as many threads as torch's operators take."""

    def decode(start: int) -> None:
        some = slice(start, start + _ROWS_FOR_THREADS)
        rows.decode_into(picked[some], vectors[some], padding, False)

    parallel_chunks(decode, range(0, len(picked), _ROWS_FOR_THREADS), torch.get_num_threads())
