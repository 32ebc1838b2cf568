"""NumpyRows: the rows of a layer that the core reads and decodes from numpy arrays, those of transform codes.

To import it takes seconds, since `torch.compiler.disable` imports the compiler: layers do so when they need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kdcode.arrays import FloatArray
from kdcode.codec import Codec
from kdcode.codec_torch import StoredCodec
from kdcode.codec_torch.twin import Twin
from kdcode.nn.layer_content import buffer_of
from kdcode.stored_array import PackedRows
from kdcode.threads import parallel_chunks

if TYPE_CHECKING:
    from kdcode.nn.coded_layer import CodedLayer

_ROWS_AT_ONCE = 4096
"""Rows that each thread decodes at a time."""
_FEW_ROWS = 64
"""Rows that are decoded as they come, however often they repeat."""


Method = TypeVar("Method", bound=Callable[..., Tensor])


def _outside_of_graphs(method: Method) -> Method:
    """Let `torch.compile` call a method as it is, and not look into it."""
    return cast(Method, torch.compiler.disable(method))


class NumpyRows:
    """Reads rows from the packed bytes of a layer, whichever device these are on, and decodes them on the CPU.

    It keeps views of the tensors of the layer, or copies of those on another device, which are fetched again once they
    have changed. A copy of the layer makes its own.
    """

    def __init__(self) -> None:
        self._rows: Twin[PackedRows] = Twin()

    def refresh(self) -> None:
        """Look at the tensors anew."""
        self._rows.forget()

    @_outside_of_graphs
    def codes(self, layer: CodedLayer, ids: Tensor) -> Tensor:
        """(n,) ids in [0, N) to their (n, columns) codes, on the device of the ids."""
        if ids.is_meta:
            return torch.empty(len(ids), len(layer.codec.spec.widths), dtype=torch.int64, device="meta")
        codec, packed = self._parts(layer)
        return torch.from_numpy(codec.unpack(packed[ids.cpu().numpy()]).astype(np.int64)).to(ids.device)

    @_outside_of_graphs
    def vectors(self, layer: CodedLayer, ids: Tensor) -> Tensor:
        """(n,) ids in [0, N) to (n, d) vectors of the layer's type, on the device of the ids."""
        if ids.is_meta:
            return torch.empty(len(ids), layer.embedding_dim, dtype=layer.codec.dtype, device="meta")
        return torch.from_numpy(self.decoded(layer, ids.cpu().numpy())).to(ids.device, layer.codec.dtype)

    def decoded(self, layer: CodedLayer, rows: npt.NDArray[np.int64]) -> FloatArray:
        """(n, d) float32 vectors of (n,) rows in [0, N); rows that come often are decoded once."""
        codec, packed = self._parts(layer)
        if len(rows) > _FEW_ROWS:
            distinct, places = np.unique(rows, return_inverse=True)
            if 4 * len(distinct) < 3 * len(rows):
                return _decoded(codec, packed, distinct)[places.reshape(-1)]
        return _decoded(codec, packed, rows)

    def _parts(self, layer: CodedLayer) -> tuple[Codec, PackedRows]:
        """The codec of a layer in numpy, and its rows."""
        if not isinstance(layer.codec, StoredCodec):
            raise TypeError(f"expected a layer with the stored tensors of a codec, got {type(layer.codec).__name__}")
        codec = layer.codec.in_numpy()

        def rows_of(arrays: dict[str, npt.NDArray[Any]]) -> PackedRows:
            layout = codec.spec.row_layout(layer.num_embeddings)
            stored = {name: rows.view(layout[name][0]) for name, rows in arrays.items()}
            return codec.rows_of_tensors(stored, layer.num_embeddings)

        names = codec.spec.row_layout(layer.num_embeddings)
        return codec, self._rows.of({name: layer.get_buffer(buffer_of(name)) for name in names}, rows_of)


def _decoded(codec: Codec, packed: PackedRows, rows: npt.NDArray[np.int64]) -> FloatArray:
    """(n, d) vectors of (n,) rows, on as many threads as torch's operators take."""
    if len(rows) <= _ROWS_AT_ONCE:
        return codec.decoder(packed).decode(rows)
    decoder, vectors = codec.decoder(packed), np.empty((len(rows), codec.spec.embedding_dim), dtype=np.float32)

    def decode(start: int) -> None:
        some = slice(start, start + _ROWS_AT_ONCE)
        vectors[some] = decoder.decode(rows[some])

    parallel_chunks(decode, range(0, len(rows), _ROWS_AT_ONCE), torch.get_num_threads())
    return vectors
