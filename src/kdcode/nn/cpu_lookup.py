"""CpuLookup: vectors of a layer on the CPU where no gradients are asked for, quicker than torch's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _get_tracing_state
from torch.compiler import is_compiling

from kdcode.arrays import FloatArray
from kdcode.codec import CompiledSums
from kdcode.codec_torch import StoredCodec
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.codec_torch.twin import tensors_seen
from kdcode.compiled import Kernels, kernels
from kdcode.errors import RowError
from kdcode.row_cache import RowCache, Rows

if TYPE_CHECKING:
    from kdcode.nn.coded_layer import CodedLayer

_FEW_ROWS = 32
"""Ids that numpy looks up without compiled code."""
_WORTH_A_CACHE = 1024
"""Ids that a cache is asked for where compiled code and a basis decode them. Without a basis that is quicker."""
_ROWS_FOR_THREADS = 8192
"""Rows that each thread decodes at a time, where there are more of them."""


class CpuLookup:
    """Decodes ids of a layer: by compiled code, where that is installed; without it, a few ids by numpy.

    It keeps views of the tensors of the layer; a copy of the layer makes its own.

    Args:
        cache: keeps the vectors of ids that come often.
    """

    def __init__(self, cache: RowCache | None = None) -> None:
        self._cache = cache
        self._cached_from: tuple[int, ...] = ()
        self._sums: CompiledSums | None = None
        self._seen: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _fresh, (None if self._cache is None else (self._cache.dim, self._cache.nbytes),)

    @property
    def nbytes(self) -> int:
        """Bytes of the cache."""
        return 0 if self._cache is None else self._cache.nbytes

    def vectors(self, layer: CodedLayer, ids: Tensor) -> Tensor | None:
        """ids.shape + (d,) vectors, that of the padding id zero; None where torch's operators have to make them.

        Raises:
            RowError: an id is negative, or not below `num_embeddings`.
        """
        if type(ids) is not Tensor or ids.dtype is not torch.int64 or not ids.is_cpu or is_compiling():
            return None
        # Straight to the tensors: the attributes of a module take longer to find than a row takes to decode.
        codec: Any = layer._modules["codec"]
        weights = codec._parameters
        if _get_tracing_state() is not None or (weights and _want_gradients(weights)):
            return None
        ids = ids.contiguous()
        try:
            address = ids.data_ptr()
        except RuntimeError:  # ids have no numbers of their own inside of torch.func.vmap and the like
            return None
        count, dim = ids.numel(), layer.embedding_dim
        codebook = main_tensor(codec)
        sums = self._sums_for(layer, codebook, count) if codec.spec.has_codewords else None
        vectors: FloatArray | None
        if self._cache is not None and (sums is None or (codec.spec.basis and count >= _WORTH_A_CACHE)):
            vectors = self._cached(layer, codebook, ids, sums)
        elif sums is not None and count >= 2 * layer.num_embeddings:
            return _from_whole_table(layer, sums, ids)
        elif sums is not None:
            vectors = np.empty((count, dim), dtype=np.float32)
            if count > _ROWS_FOR_THREADS or not sums.decode_at(address, count, vectors):
                _decode(sums, layer, ids.numpy().reshape(-1), vectors)
        else:
            vectors = self._by_numpy(layer, ids) if count <= _FEW_ROWS or layer.numpy_rows is not None else None
        if vectors is None:
            return None
        found = torch.from_numpy(vectors)
        if ids.ndim != 1:
            found = found.view(*ids.shape, dim)
        return found if codec.dtype is torch.float32 else found.to(codec.dtype)

    def _cached(self, layer: CodedLayer, codebook: Tensor, ids: Tensor, sums: CompiledSums | None) -> FloatArray | None:
        """(n, d) vectors of ids, from the cache where it has them."""
        if self._cache is None or not layer.code_rows.is_cpu:
            return None
        seen = tensors_seen(layer.code_rows, codebook)
        if seen != self._cached_from:
            self._cache.clear()
            self._cached_from = seen

        def decode(rows: Rows) -> FloatArray:
            if sums is None:
                layer.check_range(int(rows.min()), int(rows.max()))
                return layer.composed(torch.from_numpy(rows)).float().numpy()
            vectors = np.empty((len(rows), layer.embedding_dim), dtype=np.float32)
            _decode(sums, layer, rows, vectors)
            return vectors

        return self._cache.vectors(ids.numpy().reshape(-1), decode)

    def _sums_for(self, layer: CodedLayer, codebook: Tensor, rows: int) -> CompiledSums | None:
        compiled = kernels(rows)
        if compiled is None:
            return None
        code_rows: Tensor = layer._buffers["code_rows"]  # type: ignore[assignment]
        seen = (code_rows.data_ptr(), codebook.data_ptr())
        if seen != self._seen:  # tensors may be others after `to`, `load_state_dict` or `torch.func.functional_call`
            self._sums, self._seen = _sums_of(layer, code_rows, compiled), seen
        return self._sums

    def _by_numpy(self, layer: CodedLayer, ids: Tensor) -> FloatArray | None:
        """(n, d) vectors of ids by numpy: transform codes, or a few ids, which torch's operators take longer for."""
        rows = ids.numpy().reshape(-1)
        codec = layer.codec
        if len(rows) == 0 or layer.code_rows.device.type != "cpu" or not isinstance(codec, StoredCodec):
            return None
        layer.check_range(int(rows.min()), int(rows.max()))
        if layer.numpy_rows is not None:
            vectors = layer.numpy_rows.decoded(layer, rows)
        elif codec.spec.has_codewords:
            vectors = codec.in_numpy().decode_packed(layer.code_rows.numpy()[rows])
        else:
            return None
        if layer.padding_idx is not None:
            vectors[rows == layer.padding_idx] = 0
        return vectors


def main_tensor(codec: Any) -> Tensor:  # noqa: ANN401 - a module, straight to whose tensors this looks
    """The tensor of a codec that tells whether it has changed: the codebook, or the steps of transform codes."""
    tensors = codec._parameters or codec._buffers
    found: Tensor = tensors["codebook"] if "codebook" in tensors else tensors["steps"]
    return found


def _fresh(cache: tuple[int, int] | None) -> CpuLookup:
    return CpuLookup(None if cache is None else RowCache(*cache))


def _sums_of(layer: CodedLayer, code_rows: Tensor, compiled: Kernels) -> CompiledSums | None:
    """What decodes from the tensors of a layer; None where they are not those that there are kernels for."""
    spec = layer.codec.spec
    tensors = layer.codec.stored_tensors() if code_rows.is_cpu and spec.adds_codewords else None
    if tensors is None:
        return None
    arrays = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    bits = 8 * code_rows.element_size()
    widths = None if layer.form == "packed" else (bits, bits)
    return CompiledSums(compiled, spec, arrays, code_rows.numpy().view(np.uint8), widths, layer.padding_idx)


def _want_gradients(weights: Mapping[str, Tensor | None]) -> bool:
    return torch.is_grad_enabled() and any(weight is not None and weight.requires_grad for weight in weights.values())


def _from_whole_table(layer: CodedLayer, sums: CompiledSums, ids: Tensor) -> Tensor:
    """Vectors of ids of which there are more than rows: all rows are decoded, and copied."""
    table = np.empty((layer.num_embeddings, layer.embedding_dim), dtype=np.float32)
    _decode(sums, layer, np.arange(layer.num_embeddings), table)
    return layer.rows_of(torch.from_numpy(table).to(layer.codec.dtype), ids)


def _decode(sums: CompiledSums, layer: CodedLayer, rows: Rows, vectors: FloatArray) -> None:
    """Write the (n, d) vectors of (n,) rows, on as many threads as torch's operators take."""

    def decode(start: int) -> None:
        some = slice(start, start + _ROWS_FOR_THREADS)
        sums.decode_into(rows[some], vectors[some], _multiply)

    try:
        if len(rows) <= _ROWS_FOR_THREADS:
            sums.decode_into(rows, vectors, _multiply)
        else:
            parallel_chunks(decode, range(0, len(rows), _ROWS_FOR_THREADS), torch.device("cpu"))
    except RowError:
        layer.check_range(int(rows.min()), int(rows.max()))
        raise


def _multiply(rows: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """`numpy.matmul` on torch's threads."""
    torch.mm(torch.from_numpy(rows), torch.from_numpy(matrix), out=torch.from_numpy(out))
