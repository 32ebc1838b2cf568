"""Codes of vectors in large batches: beam search over positions, by the same tables as `SumSearch`.

`kdcode.codec.beam_search` has the numpy twin, which needs no torch; this one is several times quicker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kdcode.arrays import FloatArray
from kdcode.codec import BlockSum, Codec
from kdcode.codec.transform.spec import MAX_ROWS_PER_BLOCK
from kdcode.codec_torch.icm import SumSearch
from kdcode.codec_torch.nearest import nearest_labels
from kdcode.codec_torch.parallel import parallel_chunks

_MOST_ROWS, _CHUNK_FLOATS, _UNARY_FLOATS = 1 << 11, 1 << 20, 1 << 21
_ROWS_FLOATS = 1 << 17
_GROUP = 16
_MOST_PACKED = 512
"""Costs whose places take no more than nine of their 23 bits."""


def encode(
    codec: Codec,
    vectors: npt.ArrayLike,
    *,
    beam: int = 8,
    sweeps: int = 4,
    device: torch.device | str = "cpu",
) -> npt.NDArray[np.int64]:
    """What `Codec.encode` does, on the threads of torch or on another device.

    Args:
        codec: what the codes mean; for an LSTM and for transform codes the numpy way is taken, on several threads.
        vectors: (d,) or (n, d) finite numbers.
        beam: partial codes kept per vector; more is slower and better.
        sweeps: passes of ICM after it.
        device: where to search.

    Returns:
        (columns,) or (n, columns) codes.
    """
    if not isinstance(codec, BlockSum):
        return _encode_by_rows(codec, np.asarray(vectors), beam, sweeps)

    def search(unit_codec: BlockSum, rows: FloatArray, beam: int, sweeps: int) -> npt.NDArray[np.int64]:
        if unit_codec.basis is not None and not unit_codec.spec.is_rotated:  # a projection keeps no distances
            parts = (unit_codec.reduced(rows), unit_codec.reduced_words)
            reduced, words = (torch.from_numpy(part).to(device) for part in parts)
            return encode_sums(reduced, words, beam=beam, sweeps=sweeps).cpu().numpy()
        return _encode_blocks(unit_codec, torch.from_numpy(rows).to(device), beam, sweeps).cpu().numpy()

    return codec.encode(vectors, beam=beam, sweeps=sweeps, search=search)


def _encode_by_rows(codec: Codec, vectors: npt.NDArray[Any], beam: int, sweeps: int) -> npt.NDArray[np.int64]:
    """What the codec finds for some rows at a time."""
    if vectors.ndim != 2:
        return codec.encode(vectors, beam=beam, sweeps=sweeps)
    at_once = min(_MOST_ROWS, _ROWS_FLOATS // max(1, vectors.shape[1]))
    at_once = max(1, at_once // MAX_ROWS_PER_BLOCK) * MAX_ROWS_PER_BLOCK  # rows that are coded together stay so
    starts = range(0, max(1, len(vectors)), at_once)
    found: dict[int, npt.NDArray[np.int64]] = {}

    def work(start: int) -> None:
        found[start] = codec.encode(vectors[start : start + at_once], beam=beam, sweeps=sweeps)

    parallel_chunks(work, starts, torch.device("cpu"))
    return np.concatenate([found[start] for start in starts])


def _encode_blocks(codec: BlockSum, vectors: Tensor, beam: int, sweeps: int) -> Tensor:
    """(n, D) codes of (n, d) vectors, where the basis is a rotation, or there is none."""
    spec = codec.spec
    words = torch.from_numpy(np.array(codec.codebook)).to(vectors.device)
    if codec.basis is not None:
        vectors = vectors @ torch.from_numpy(codec.inverse_basis).to(vectors)
    codes = torch.empty(len(vectors), spec.code_length, dtype=torch.int64, device=vectors.device)
    for block in spec.blocks:
        part = words[block.positions, :, : block.width].contiguous()
        columns = vectors[:, block.columns].contiguous()
        if block.length == 1:  # the nearest codeword is the best code
            codes[:, block.positions] = nearest_labels(columns, part[0])[:, None]
        else:
            codes[:, block.positions] = encode_sums(columns, part, beam=beam, sweeps=sweeps)
    return codes


@torch.no_grad()
def encode_sums(vectors: Tensor, words: Tensor, *, beam: int, sweeps: int = 0, before: Tensor | None = None) -> Tensor:
    """Codes of vectors under codewords that are added.

    Centred codewords make a partial sum comparable with the vector, and positions of most energy are chosen first.

    Args:
        vectors: (n, e).
        words: (D, K, e).
        beam: partial codes kept per vector.
        sweeps: passes of ICM after it.
        before: (n, D) codes that a row keeps where the new one is no nearer.

    Returns:
        (n, D) codes, of the type of those before.
    """
    means = words.mean(dim=1, keepdim=True)
    centred = words - means
    order = centred.square().sum(dim=(1, 2)).argsort(descending=True, stable=True)
    search = SumSearch(centred[order].contiguous())
    mean = means.sum(dim=(0, 1))
    dtype = torch.int64 if before is None else before.dtype
    codes = torch.empty(len(vectors), len(words), dtype=dtype, device=vectors.device)
    rows = _rows_at_once(search.length, search.size, beam)

    def choose(start: int) -> None:
        part = slice(start, start + rows)
        left = vectors[part] - mean
        unary = search.unary(left)
        found = _beam_search(search, unary, beam)
        if sweeps:
            found = search.icm_chunk(left, found, sweeps, unary)
        if before is not None:
            found = search.nearer(left, found, before[part][:, order].long())
        codes[part] = torch.empty_like(found).index_copy_(1, order, found)

    parallel_chunks(choose, range(0, len(vectors), rows), vectors.device)
    return codes


def _rows_at_once(length: int, size: int, beam: int) -> int:
    """As many that the costs of a beam stay in a core's cache, and unary terms take little memory."""
    return max(16, min(_MOST_ROWS, _CHUNK_FLOATS // (max(beam, 8) * size), _UNARY_FLOATS // (length * size)))


def _beam_search(search: SumSearch, unary: Tensor, width: int) -> Tensor:
    """The best of the codes that are left when positions are chosen first to last and `width` codes kept at each."""
    count, size = len(unary), search.size
    costs, places = _smallest_few(unary[:, 0], width)
    codes = places[:, :, None]
    for position in range(1, search.length):
        kept = codes.shape[1]
        pairwise = search.pairwise(codes.flatten(0, 1), position).view(count, kept, size)
        total = pairwise.add_(unary[:, None, position]).add_(costs[:, :, None]).flatten(1)
        costs, places = _smallest_few(total, width)
        parents = (places // size)[:, :, None].expand(-1, -1, position)
        codes = torch.cat([codes.gather(1, parents), (places % size + position * size)[:, :, None]], dim=2)
    best = codes.gather(1, costs.argmin(dim=1)[:, None, None].expand(-1, -1, search.length))[:, 0]
    return best - size * torch.arange(search.length, device=best.device)


def _smallest_few(costs: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` smallest of (n, m) costs and their places, in any order.

    They are all in the `width` groups with the smallest minima. Minima of groups that run across the row are quick to
    compute, so that the slow selection only sees them, and then the chosen groups.
    """
    count, most = costs.shape
    if most % _GROUP or most // _GROUP <= 2 * width:
        places = _places_of_smallest(costs, min(width, most))
        return costs.gather(1, places), places
    groups = costs.view(count, _GROUP, most // _GROUP)
    near = _places_of_smallest(groups.amin(dim=1), width)  # (n, width)
    few = groups.gather(2, near[:, None, :].expand(-1, _GROUP, -1)).flatten(1)
    spots = _places_of_smallest(few, width)
    return few.gather(1, spots), (spots // width) * groups.shape[2] + near.gather(1, spots % width)


def _places_of_smallest(costs: Tensor, width: int) -> Tensor:
    """(n, width) places of the smallest of (n, m) costs; those that are nearly equal may swap.

    On the CPU places are written into the last bits of the costs, and what numpy's partition brings to the front tells
    both: it is several times quicker than torch's selection, which carries places along.
    """
    most = costs.shape[1]
    if costs.device.type != "cpu" or most > _MOST_PACKED:
        return costs.topk(width, largest=False, sorted=False).indices
    mask = np.int32((1 << (most - 1).bit_length()) - 1)
    packed = (costs.contiguous().numpy().view(np.int32) & ~mask) | np.arange(most, dtype=np.int32)
    front = np.partition(packed.view(np.float32), width - 1, axis=1)[:, :width]
    return torch.from_numpy((front.view(np.int32) & mask).astype(np.int64))
