"""kdcode::packed_codes and kdcode::packed_vectors: rows of packed transform codes, as operators of torch.

The core reads the rows, on the CPU, whichever device their tensors are on. In a graph that is compiled or exported the
operators stand as they are, with all tensors as their arguments, so that nothing breaks the graph and a device "meta"
knows the shapes. An exported program runs where kdcode is imported.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec import CodecSpec, Transform, codec_from_tensors, make_spec
from kdcode.codec.transform import TransformRowDecoder
from kdcode.codec_torch.twin import tensors_seen
from kdcode.threads import parallel_chunks

_ROWS_AT_ONCE = 8192
"""Rows that each thread decodes at a time."""
_FEW_ROWS = 64
"""Rows that are decoded as they come, however often they repeat."""
_MOST_KEPT = 8
"""Tables whose decoders are kept between calls, with their tensors."""
_ARGUMENTS = "Tensor ids, Tensor[] rows, Tensor[] shared, str shape, int num_embeddings"

_LIBRARY = torch.library.Library("kdcode", "DEF")
_LIBRARY.define(f"packed_codes({_ARGUMENTS}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_LIBRARY.define(f"packed_vectors({_ARGUMENTS}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))


class _Kept(NamedTuple):
    """A decoder, and the tensors that it was made from: as long as they are held, no others have their addresses."""

    tensors: tuple[Tensor, ...]
    decoder: TransformRowDecoder


_kept: OrderedDict[tuple[str, int, tuple[int, ...]], _Kept] = OrderedDict()


def shape_text(spec: CodecSpec) -> str:
    """The argument `shape` of the operators."""
    return json.dumps(asdict(spec), separators=(",", ":"))


def forget_decoders() -> None:
    """Make all decoders anew when they are next asked for."""
    _kept.clear()


@lru_cache(maxsize=64)
def _spec_of(text: str) -> CodecSpec:
    return make_spec(json.loads(text))


def _decoder(rows: Sequence[Tensor], shared: Sequence[Tensor], shape: str, count: int) -> TransformRowDecoder:
    """What decodes `count` rows from tensors, as they are now."""
    own = (*rows, *shared)
    key = shape, count, tensors_seen(*own)
    kept = _kept.get(key)
    if kept is None:
        spec = _spec_of(shape)
        arrays = iter([tensor.detach().cpu().contiguous().numpy() for tensor in own])
        packed = {name: next(arrays).view(dtype) for name, (dtype, _) in spec.row_layout(count).items()}
        stored = {name: next(arrays).view(dtype) for name, (dtype, _) in spec.tensor_layout().items()}
        codec = codec_from_tensors(spec, stored)
        assert isinstance(codec, Transform)  # noqa: S101 - for the type checker
        kept = _kept[key] = _Kept(own, TransformRowDecoder(codec, codec.rows_of_tensors(packed, count)))
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return kept.decoder


def _vectors(decoder: TransformRowDecoder, rows: IntArray, dim: int) -> FloatArray:
    """(n, d) vectors of (n,) rows, on as many threads as torch's operators take; rows that repeat are decoded once."""
    if len(rows) > _FEW_ROWS:
        distinct, places = np.unique(rows, return_inverse=True)
        if 4 * len(distinct) < 3 * len(rows):
            return np.asarray(_vectors(decoder, distinct, dim)[places.reshape(-1)])
    vectors = np.empty((len(rows), dim), dtype=np.float32)

    def decode(start: int) -> None:
        some = slice(start, start + _ROWS_AT_ONCE)
        vectors[some] = decoder.decode(rows[some])

    parallel_chunks(decode, range(0, len(rows), _ROWS_AT_ONCE), torch.get_num_threads())
    return vectors


def _packed_codes(ids: Tensor, rows: list[Tensor], shared: list[Tensor], shape: str, num_embeddings: int) -> Tensor:
    codes = _decoder(rows, shared, shape, num_embeddings).codes(ids.cpu().numpy())
    return torch.from_numpy(codes.astype(np.int64)).to(ids.device)


def _packed_vectors(ids: Tensor, rows: list[Tensor], shared: list[Tensor], shape: str, num_embeddings: int) -> Tensor:
    dim = _spec_of(shape).embedding_dim
    return torch.from_numpy(_vectors(_decoder(rows, shared, shape, num_embeddings), ids.cpu().numpy(), dim)).to(
        ids.device
    )


def _fake_codes(ids: Tensor, rows: list[Tensor], shared: list[Tensor], shape: str, num_embeddings: int) -> Tensor:
    return ids.new_empty((ids.shape[0], len(_spec_of(shape).widths)))


def _fake_vectors(ids: Tensor, rows: list[Tensor], shared: list[Tensor], shape: str, num_embeddings: int) -> Tensor:
    return ids.new_empty((ids.shape[0], _spec_of(shape).embedding_dim), dtype=torch.float32)


_LIBRARY.impl("packed_codes", _packed_codes, "CompositeExplicitAutograd")
_LIBRARY.impl("packed_vectors", _packed_vectors, "CompositeExplicitAutograd")
torch.library.register_fake("kdcode::packed_codes", _fake_codes)
torch.library.register_fake("kdcode::packed_vectors", _fake_vectors)
