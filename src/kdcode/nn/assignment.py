"""Assignments: the map from a symbol to its code (the paper's phi), learnable or fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.codec_torch.lookup import code_dtype
from kdcode.errors import OptionError

SCORES = ("dot", "distance")
"""How queries are compared with keys."""

FIRST_LEAD = 0.5
"""By how much the first codeword of each position is ahead of the others in the beginning."""

FIRST_SPREAD = 0.01
"""Standard deviation of scores in the beginning."""

_NORM_BATCHES = 100
_NORM_EPSILON = 1e-5


class FreeAssignment(nn.Module):
    """A logit for every symbol, position and codeword; the code is the largest at each position (section 3).

    Takes N·D·K numbers while it is trained; `QueryAssignment` takes fewer.

    Args:
        num_embeddings: N.
        code_length: D.
        codebook_size: K.
        lead: what the first codeword's logits are above the others in the beginning, so that all symbols start with the
            same code; 0 for random codes, as in the paper.
        sparse: whether gradients have only the rows that were used, as in `nn.Embedding`; see `make_optimizer`.
        device: where the logits live.
        generator: draws the first logits, which are near zero.
    """

    def __init__(
        self,
        num_embeddings: int,
        code_length: int,
        codebook_size: int,
        *,
        lead: float = FIRST_LEAD,
        sparse: bool = False,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        logits = torch.empty(num_embeddings, code_length * codebook_size, device=device)
        logits.normal_(0, FIRST_SPREAD, generator=generator)[:, ::codebook_size] += lead
        self.rows = _rows(logits, sparse=sparse)
        self.num_embeddings, self.code_length, self.codebook_size = num_embeddings, code_length, codebook_size

    @classmethod
    def from_codes(cls, codes: Tensor, codebook_size: int, lead: float = 1.0) -> FreeAssignment:
        """Logits that begin with (N, D) codes, whose codewords are ahead of the others by `lead`."""
        count, length = codes.shape
        assignment = cls(count, length, codebook_size, lead=0.0, device=codes.device)
        with torch.no_grad():
            assignment.logits.zero_().scatter_(2, codes[:, :, None], lead)
        return assignment

    @property
    def logits(self) -> Tensor:
        """All (N, D, K) logits, a view of the parameter."""
        return self.rows.weight.view(self.num_embeddings, self.code_length, self.codebook_size)

    def forward(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D, K) logits."""
        found: Tensor = self.rows(ids)  # refuses ids that are negative or too large
        return found.view(-1, self.code_length, self.codebook_size)

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D) codes."""
        return self.logits.detach().index_select(0, ids).argmax(dim=-1)

    @torch.no_grad()
    def split(self, position: int, empty: Tensor, chosen: Tensor, generator: torch.Generator | None = None) -> None:
        """Let codewords that are not in use have about half of the symbols of others, at one position.

        Args:
            position: below D.
            empty: (m,) codewords that are not in use.
            chosen: (m,) codewords whose symbols they are to share.
            generator: draws which symbols.
        """
        logits = self.logits
        noise = torch.randn(len(logits), len(empty), generator=generator).to(logits)
        logits[:, position, empty] = logits[:, position, chosen] + 1e-3 * noise

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        return _shape(self)


class QueryAssignment(nn.Module):
    """A short query for every symbol, and K keys for every position; a code has the best key at each position.

    Takes N·q numbers while it is trained, where `FreeAssignment` takes N·D·K, and symbols with similar queries get
    similar codes.

    Queries start near zero, and the first key of each position leads by `FIRST_LEAD`: all symbols start with the same
    code. With
    `batch_norm`, they start with random codes instead, and the scores of each key are standardised over the symbols of
    a batch, so that no key is always the best and all codewords stay in use.

    Scores are computed in float32 at least, under autocast too, so that a code does not depend on rounding.

    Args:
        num_embeddings: N.
        code_length: D.
        codebook_size: K.
        query_dim: q, a multiple of D, 4·D where left out; each position sees its own part of q/D numbers.
        score: "dot", the dot product of query and key (softmax form), or "distance", for the nearest key. With
            `batch_norm` both are the same.
        batch_norm: whether scores are standardised; codes then start at random.
        sparse: whether gradients of queries have only the rows that were used; see `make_optimizer`.
        device: where the queries live.
        generator: draws the first queries and keys.
    """

    keys: nn.Parameter
    bias: nn.Parameter | None
    query_mean: Tensor
    query_covariance: Tensor
    batches: Tensor

    def __init__(  # noqa: PLR0913 - one for each choice
        self,
        num_embeddings: int,
        code_length: int,
        codebook_size: int,
        query_dim: int | None = None,
        *,
        score: str = "dot",
        batch_norm: bool = False,
        sparse: bool = False,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        query_dim = 4 * code_length if query_dim is None else query_dim
        if query_dim < 1 or query_dim % code_length:
            raise OptionError(f"query_dim must be a multiple of code_length={code_length}, got {query_dim}")
        if score not in SCORES:
            raise OptionError(f"score must be one of {', '.join(SCORES)}, got {score!r}")
        self.num_embeddings, self.code_length, self.codebook_size = num_embeddings, code_length, codebook_size
        self.score, self.batch_norm = score, batch_norm
        spread = 1.0 if batch_norm else FIRST_SPREAD
        queries = torch.empty(num_embeddings, query_dim, device=device).normal_(0, spread, generator=generator)
        keys = torch.empty(code_length, codebook_size, query_dim // code_length, device=device)
        self.rows = _rows(queries, sparse=sparse)
        self.keys = nn.Parameter(F.normalize(keys.normal_(generator=generator), dim=-1))
        self.register_parameter("bias", None)
        if batch_norm:
            width = keys.shape[2]
            self.register_buffer("query_mean", torch.zeros(code_length, width, device=device))
            covariance = torch.eye(width, device=device).expand(code_length, -1, -1)
            self.register_buffer("query_covariance", covariance.clone())
            self.register_buffer("batches", torch.zeros((), device=device))
        elif score == "distance":
            self.keys.data[:, 0] = 0  # the nearest to a query of zeros; others lose by half of their squares
        else:
            self.bias = nn.Parameter(torch.zeros(code_length, codebook_size, device=device))
            self.bias.data[:, 0] = FIRST_LEAD

    def forward(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D, K) scores; in training, standardised over these symbols."""
        queries = self.rows(ids)
        with torch.autocast("cpu" if queries.is_meta else queries.device.type, enabled=False):
            parts = self._parts(queries)
            if self.batch_norm and self.training and len(ids) > 1:
                mean, covariance = _moments(parts)
                self._follow(mean.detach(), covariance.detach())
                return self._scores(parts, mean, covariance)
            return self._scores(parts, *self._running())

    @torch.no_grad()
    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D) codes, by the running statistics that evaluation uses."""
        queries = self.rows.weight.index_select(0, ids)
        with torch.autocast("cpu" if queries.is_meta else queries.device.type, enabled=False):
            return self._scores(self._parts(queries), *self._running()).argmax(dim=-1)

    @torch.no_grad()
    def split(self, position: int, empty: Tensor, chosen: Tensor, generator: torch.Generator | None = None) -> None:
        """Let codewords that are not in use have about half of the symbols of others; as `FreeAssignment.split`."""
        keys = self.keys[position]
        noise = torch.randn(len(empty), keys.shape[1], generator=generator).to(keys)
        if not self.batch_norm:  # a copy must be the better one for half of the symbols, wherever their mean is
            start = position * keys.shape[1]
            mean = F.normalize(self.rows.weight[:, start : start + keys.shape[1]].mean(dim=0), dim=0)
            noise = noise - (noise @ mean)[:, None] * mean
        keys[empty] = keys[chosen] + 0.01 * keys.std() * noise
        if self.bias is not None:
            self.bias[position, empty] = self.bias[position, chosen]

    def _parts(self, queries: Tensor) -> Tensor:
        """(n, q) queries to the (D, n, q/D) parts that positions see, float32 at least."""
        wide = queries.to(torch.promote_types(queries.dtype, torch.float32))
        return wide.view(len(queries), self.code_length, self.keys.shape[2]).transpose(0, 1)

    def _scores(self, parts: Tensor, mean: Tensor | None, covariance: Tensor | None) -> Tensor:
        """(D, n, q/D) parts to (n, D, K) scores, standardised where there are statistics.

        Scores are linear in queries, so their means and variances follow from those of the queries, and keys are scaled
        in place of scores. A distance differs from a dot product by the square of the key, which is part of the mean:
        standardised scores are the same for both.
        """
        keys = self.keys.to(parts.dtype)
        if mean is not None and covariance is not None:
            variance = (torch.bmm(keys, covariance) * keys).sum(dim=-1, keepdim=True)
            keys = keys * (variance + _NORM_EPSILON).rsqrt()
            shift = -torch.bmm(keys, mean[:, :, None])
        elif self.bias is None:
            shift = -keys.square().sum(dim=-1, keepdim=True) / 2  # the query's square is the same for all keys
        else:
            shift = self.bias[:, :, None].to(keys.dtype)
        return torch.baddbmm(shift.transpose(1, 2), parts, keys.transpose(1, 2)).transpose(0, 1)

    def _running(self) -> tuple[Tensor | None, Tensor | None]:
        """The statistics of queries that evaluation uses; None twice without batch normalisation."""
        if not self.batch_norm:
            return None, None
        kind = torch.promote_types(self.query_mean.dtype, torch.float32)
        return self.query_mean.to(kind), self.query_covariance.to(kind)

    @torch.no_grad()
    def _follow(self, mean: Tensor, covariance: Tensor) -> None:
        """Take the statistics of a batch into the running ones, which are means over the last batches."""
        share = 1 / (self.batches + 1).clamp_max(_NORM_BATCHES)
        self.batches.add_(1).clamp_max_(_NORM_BATCHES)
        for running, found in ((self.query_mean, mean), (self.query_covariance, covariance)):
            running.lerp_(found.to(running.dtype), share.to(running.dtype))

    def extra_repr(self) -> str:
        """N, D, K and q for printing."""
        details = f"query_dim={self.rows.embedding_dim}, score={self.score!r}, batch_norm={self.batch_norm}"
        return f"{_shape(self)}, {details}"


class FixedAssignment(nn.Module):
    """Codes found already, kept as a buffer of the smallest integer type that torch can index from.

    Args:
        codes: (N, D) integers in [0, K); with one more column, of levels, where rows have scales.
        codebook_size: K.
        code_length: D; the number of columns where left out.
    """

    stored: Tensor

    def __init__(self, codes: Tensor, codebook_size: int, code_length: int | None = None) -> None:
        super().__init__()
        if codes.dim() != 2 or codes.is_floating_point():
            raise OptionError(f"codes are integers of shape (N, D), got {codes.dtype} of shape {tuple(codes.shape)}")
        self.num_embeddings, self.codebook_size = len(codes), codebook_size
        self.code_length = codes.shape[1] if code_length is None else code_length
        values = codes[:, : self.code_length]
        if values.numel() and (int(values.min()) < 0 or int(values.max()) >= codebook_size):
            raise OptionError(f"codes must be in [0, {codebook_size}), got [{values.min()}, {values.max()}]")
        self.register_buffer("stored", codes.to(code_dtype(codebook_size)).contiguous())

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their codes, (n, D) or with a column for levels."""
        return self.stored.index_select(0, ids).long()

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        return _shape(self)


LearnedAssignment = FreeAssignment | QueryAssignment
Assignment = LearnedAssignment | FixedAssignment

LEARNED: dict[str, type[LearnedAssignment]] = {"query": QueryAssignment, "free": FreeAssignment}
"""The one table of assignments that learn codes, by the names that layers take."""


def _moments(parts: Tensor) -> tuple[Tensor, Tensor]:
    """The (D, q/D) means and (D, q/D, q/D) covariances of (D, n, q/D) parts of queries."""
    mean = parts.mean(dim=1)
    centred = parts - mean[:, None]
    return mean, torch.bmm(centred.transpose(1, 2), centred) / (parts.shape[1] - 1)


def _rows(values: Tensor, *, sparse: bool) -> nn.Embedding:
    """A table of learned rows; as a layer of torch's own, whose sparse gradients DistributedDataParallel knows."""
    count, width = values.shape
    return nn.Embedding(count, width, _weight=values, sparse=sparse)


def _shape(assignment: Assignment) -> str:
    names = ("num_embeddings", "code_length", "codebook_size")
    return ", ".join(f"{name}={getattr(assignment, name)}" for name in names)
