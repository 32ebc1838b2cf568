"""What a training loop should log of learned codes: use of codewords, symbols that share codes, codes that change."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from kdcode.errors import OptionError
from kdcode.nn.assignment import FixedAssignment
from kdcode.nn.kd_embedding import KDEmbedding


@dataclass(frozen=True)
class CodeUsage:
    """How the codes of a layer use its codewords.

    Args:
        perplexity: of the codewords of each position, from 1, where all symbols have the same, to K, where all are
            used alike; the mean over positions.
        least_perplexity: that of the position where it is lowest.
        unused: share of all codewords that no symbol uses.
        shared: share of symbols whose code another symbol has too.
        changed: share of positions whose codeword is another than at the last call; None at the first.
    """

    perplexity: float
    least_perplexity: float
    unused: float
    shared: float
    changed: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Everything by name, for a logger."""
        return asdict(self)


class UsageMeter:
    """Measures the codes of a layer whenever it is called.

    Args:
        layer: whose codes are learned.
    """

    def __init__(self, layer: KDEmbedding) -> None:
        self.layer = layer
        self._before: Tensor | None = None

    @torch.no_grad()
    def __call__(self) -> CodeUsage:
        """The usage now, in one pass over all symbols."""
        codes = self.layer.codes[:, : self.layer.codec.spec.code_length]
        counts = codeword_counts(codes, self.layer.codec.spec.codebook_size)
        shares = counts / len(codes)
        entropy = -torch.special.xlogy(shares, shares).sum(dim=1)
        same = torch.unique(codes, dim=0, return_counts=True)[1]
        changed = None if self._before is None else float((codes != self._before).float().mean())
        self._before = codes
        return CodeUsage(
            perplexity=float(entropy.exp().mean()),
            least_perplexity=float(entropy.exp().min()),
            unused=float((counts == 0).float().mean()),
            shared=float(same[same > 1].sum() / len(codes)),
            changed=changed,
        )


def codeword_counts(codes: Tensor, codebook_size: int) -> Tensor:
    """(D, K) how many of (N, D) codes use each codeword."""
    flat = codes + codebook_size * torch.arange(codes.shape[1], device=codes.device)
    return torch.bincount(flat.flatten(), minlength=codebook_size * codes.shape[1]).view(-1, codebook_size).float()


@torch.no_grad()
def revive(layer: KDEmbedding, *, noise: float = 0.01, generator: torch.Generator | None = None) -> int:
    """Give codewords that no symbol uses a share of the symbols of codewords that many use.

    An unused codeword moves next to one that is in use, drawn in proportion to its symbols, and about half of these
    choose it from then on. Vectors hardly change, and training takes the two apart. Call it now and then, not at every
    step.

    Args:
        layer: whose codes are being learned.
        noise: how far a codeword lands from the one it moves to, as a share of the spread of all.
        generator: draws which codewords are moved to, and the noise.

    Returns:
        How many codewords were moved.

    Raises:
        OptionError: the codes of the layer are fixed.
    """
    spec, codebook, assignment = layer.codec.spec, layer.codec.codebook, layer.assignment
    if isinstance(assignment, FixedAssignment):
        raise OptionError("the codes of this layer are fixed; only codewords of codes that are learned can be revived")
    counts = codeword_counts(layer.codes, spec.codebook_size).cpu()
    moved = 0
    for position in range(spec.code_length):
        empty = (counts[position] == 0).nonzero()[:, 0]
        if len(empty) == 0:
            continue
        chosen = torch.multinomial(counts[position], len(empty), replacement=True, generator=generator)
        away = torch.randn(codebook[position, chosen].shape, generator=generator).to(codebook)
        codebook[position, empty] = codebook[position, chosen] + noise * codebook[position].std() * away
        assignment.split(position, empty, chosen, generator)
        moved += len(empty)
    return moved
