"""What learners by gradients have as tensors, on a device: the table, where learning starts, and the best solution."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec_torch import BlockSumModule, CodecModule, make_module
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.learning.row_share import RowShare
from kdcode.learning.run import Resumable, State
from kdcode.learning.solution import Solution, Start
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable


def generator_for(seed: int, purpose: str, number: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on nothing but its arguments; see `kdcode.randomness`."""
    words = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), number]).generate_state(2)
    return torch.Generator(device=device).manual_seed(int(words[0]) << 32 | int(words[1]))


class TensorTable:
    """A `TrainingTable` on a device; on the CPU its memory is shared.

    Args:
        table: what to approximate.
        device: where the vectors go.
    """

    def __init__(self, table: TrainingTable, device: torch.device | str = "cpu") -> None:
        self.table = table
        self.vectors = torch.from_numpy(table.vectors).to(device)
        self.weights = None if table.weights is None else torch.from_numpy(table.weights).to(device)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def share(self) -> RowShare:
        """Which rows of the table are here."""
        return self.table.share

    @property
    def ranks(self) -> Ranks:
        """Who has the other rows."""
        return self.table.ranks

    def relative(self, squared: float, rows: int | None = None) -> float:
        """A sum of squared errors over some rows relative to their share of the variance."""
        return self.table.relative(squared, rows)

    @torch.no_grad()
    def error(self, codes: Tensor, module: CodecModule) -> float:
        """Relative squared error of a solution over the rows of all ranks, counted by their weight."""
        squared = 0.0
        for start in range(0, len(self), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            rows = squared_distances(module.compose(codes[part]), self.vectors[part]).double()
            squared += float(rows.sum() if self.weights is None else rows @ self.weights[part].double())
        return self.relative(self.ranks.total(squared))

    def own(self, rows: Tensor) -> Tensor:
        """(m,) places, here, of those of (n,) rows of the whole table that are here, in their order."""
        return rows if self.ranks.is_alone else rows[self.has(rows)] - self.share.first

    def has(self, rows: Tensor) -> Tensor:
        """(n,) which of (n,) rows of the whole table are here."""
        return (rows >= self.share.first) & (rows < self.share.end)


class TensorStart(NamedTuple):
    """A `Start` whose module is trained."""

    codes: Tensor
    module: CodecModule
    origin: str

    @classmethod
    def of(cls, start: Start, device: torch.device | str = "cpu") -> TensorStart:
        """The same on a device."""
        return cls(torch.from_numpy(start.codes).to(device), module_of(start.model).to(device), start.origin)


@dataclass
class Best:
    """The best solution met so far: its relative error, (N, D) codes and the weights of its codec."""

    error: float
    codes: Tensor
    weights: dict[str, Tensor] = field(repr=False)

    @classmethod
    def of(cls, error: float, codes: Tensor, module: CodecModule) -> Best:
        """The solution as it is now; weights are copied, codes are not."""
        return cls(error, codes, copied_weights(module))


class TensorResumable(Resumable):
    """A learner with tensors; checkpoints hold them as arrays."""

    device: torch.device

    def state(self) -> State:
        """Everything that the rest of the run depends on."""
        return dict(as_arrays(super().state()))

    def load_state(self, state: State) -> None:
        """Take over what `state` gave."""
        super().load_state(as_tensors(state, self.device))


def as_arrays(value: Any) -> Any:  # noqa: ANN401 - values of any type
    """Values with arrays in the place of tensors; on the CPU these share memory."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {key: as_arrays(item) for key, item in value.items()}
    return type(value)(map(as_arrays, value)) if isinstance(value, list | tuple) else value


def as_tensors(value: Any, device: torch.device | str) -> Any:  # noqa: ANN401 - values of any type
    """Values with tensors in the place of arrays."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value).to(device)
    if isinstance(value, dict):
        return {key: as_tensors(item, device) for key, item in value.items()}
    return type(value)(as_tensors(item, device) for item in value) if isinstance(value, list | tuple) else value


def copied_weights(module: nn.Module) -> dict[str, Tensor]:
    """The state of a module, copied."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


@torch.no_grad()
def module_of(model: SumModel) -> CodecModule:
    """The torch module of a model, with copies of its weights."""
    module = make_module(model.spec, generator=torch.Generator().manual_seed(0))  # leaves torch's own alone
    for name, value in model.weights.items():
        module.get_parameter(name).copy_(torch.from_numpy(value))
    return module


def solution_of(codes: Tensor, module: CodecModule, encoder: Any = None) -> Solution:  # noqa: ANN401 - an Encoder
    """What a learner found, in numpy where it is a sum."""
    found = module.cpu()
    if isinstance(found, BlockSumModule):
        model = SumModel(found.spec, np.random.default_rng(0))
        model.load_state_dict({name: value.detach().numpy() for name, value in found.weights.items()})
        return Solution(codes.cpu().numpy(), model, encoder)
    return Solution(codes.cpu().numpy(), found, encoder)  # type: ignore[arg-type] # the other kind is an LSTM


def used_codewords(codes: Tensor, codebook_size: int, ranks: Ranks = ALONE) -> Tensor:
    """(D, K): how many rows of (N, D) codes, those of all ranks, use each codeword."""
    return ranks.all_sum(torch.stack([column.bincount(minlength=codebook_size) for column in codes.t()]))


def unused_codewords(codes: Tensor, codebook_size: int, ranks: Ranks = ALONE) -> int:
    """How many codewords no row of (N, D) codes uses, on any rank."""
    return int((used_codewords(codes, codebook_size, ranks) == 0).sum())


def squared_distances(composed: Tensor, vectors: Tensor) -> Tensor:
    """(n,) squared distances between (n, d) vectors."""
    return (composed - vectors).square().sum(dim=1)
