"""Codes of new vectors in large batches: a beam over the positions, by the same tables as `SumSearch`.

`kdcode.encoding` has the numpy twin, which needs no torch; this one is several times quicker.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kdcode.coded import CodedTable
from kdcode.composition import Linear, SideBySide
from kdcode.errors import OptionError
from kdcode.learning.code_search import SumSearch
from kdcode.learning.side_by_side import side_by_side
from kdcode.row_scales import directions

_MOST_ROWS, _CHUNK_FLOATS, _UNARY_FLOATS = 1 << 11, 1 << 20, 1 << 21
_GROUP = 16
_MOST_PACKED = 512
"""Costs whose places take no more than nine of their 23 bits."""


def encode(
    coded: CodedTable,
    vectors: npt.ArrayLike,
    *,
    beam: int = 8,
    sweeps: int = 4,
    device: torch.device | str = "cpu",
) -> npt.NDArray[np.int64]:
    """What `CodedTable.encode` does, on the threads of torch or on another device.

    Args:
        coded: whose codebook is used; for an LSTM the numpy way is taken.
        vectors: (n, d) finite numbers.
        beam: partial codes kept per vector; more is slower and better.
        sweeps: passes of refinement after it.
        device: where to search.

    Returns:
        (n, D) codes.
    """
    composition = coded.composition
    if not isinstance(composition, Linear | SideBySide):
        return np.atleast_2d(coded.encode(vectors, beam=beam, sweeps=sweeps))
    if beam < 1 or sweeps < 0:
        raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    if array.ndim != 2 or array.shape[1] != coded.embedding_dim or not np.isfinite(array).all():
        raise OptionError(f"expected finite vectors of size {coded.embedding_dim}, got shape {array.shape}")
    array = np.require(array if coded.scales is None else directions(array), requirements="W")
    words = torch.from_numpy(np.array(coded.codebook.values)).to(device)
    if isinstance(composition, Linear):
        given = composition.projection
        folded = words if given is None else words @ torch.from_numpy(np.array(given)).to(device)
        return encode_sums(torch.from_numpy(array).to(device), folded, beam=beam, sweeps=sweeps).cpu().numpy()
    rows = torch.from_numpy(composition.unturned(array)).to(device)
    codes = torch.empty(len(rows), len(words), dtype=torch.int64, device=device)
    for block in composition.blocks(*words.shape[::2]):
        part = words[block.positions, :, : block.width].contiguous()
        few = 0 if block.length == 1 else sweeps  # one position alone is found exactly
        codes[:, block.positions] = encode_sums(rows[:, block.columns].contiguous(), part, beam=beam, sweeps=few)
    return codes.cpu().numpy()


@torch.no_grad()
def encode_sums(vectors: Tensor, words: Tensor, *, beam: int, sweeps: int = 0, before: Tensor | None = None) -> Tensor:
    """Codes of vectors under codewords that are added.

    Centred codewords make a partial sum comparable with the vector, and positions of most energy are chosen first.

    Args:
        vectors: (n, e).
        words: (D, K, e).
        beam: partial codes kept per vector.
        sweeps: passes of refinement after it.
        before: (n, D) codes that a row keeps where the new one is no nearer.

    Returns:
        (n, D) codes, of the type of those before.
    """
    means = words.mean(dim=1, keepdim=True)
    centred = words - means
    order = centred.square().sum(dim=(1, 2)).argsort(descending=True, stable=True)
    search = SumSearch(centred[order].contiguous())
    middle = means.sum(dim=(0, 1))
    kind = torch.int64 if before is None else before.dtype
    codes = torch.empty(len(vectors), len(words), dtype=kind, device=vectors.device)
    rows = _rows_at_once(search.length, search.size, beam)

    def choose(start: int) -> None:
        part = slice(start, start + rows)
        left = vectors[part] - middle
        unary = search.unary(left)
        found = _beam(search, unary, beam)
        if sweeps:
            found = search.descend(left, found, sweeps, unary)
        if before is not None:
            old = before[part][:, order].long()
            worse = search.distances(left, found) >= search.distances(left, old)
            found = torch.where(worse[:, None], old, found)
        codes[part] = torch.empty_like(found).index_copy_(1, order, found)

    side_by_side(choose, range(0, len(vectors), rows), vectors.device)
    return codes


def _rows_at_once(length: int, size: int, beam: int) -> int:
    """As many that the costs of a beam stay in a core's cache, and unary terms take little memory."""
    return max(16, min(_MOST_ROWS, _CHUNK_FLOATS // (max(beam, 8) * size), _UNARY_FLOATS // (length * size)))


def _beam(search: SumSearch, unary: Tensor, width: int) -> Tensor:
    """The best of the codes that are left when positions are chosen first to last and `width` codes kept at each."""
    count, size = len(unary), search.size
    costs, places = _smallest_few(unary[:, 0], width)
    codes = places[:, :, None]
    for position in range(1, search.length):
        kept = codes.shape[1]
        met = search.met(codes.flatten(0, 1), position).view(count, kept, size)
        total = met.add_(unary[:, None, position]).add_(costs[:, :, None]).flatten(1)
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
