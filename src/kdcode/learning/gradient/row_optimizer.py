"""An optimiser for a table of which a few rows are seen per update."""

from __future__ import annotations

import torch
from torch import Tensor


class RowOptimizer:
    """Gradient steps divided by the root of each row's own running mean square; untouched rows cost nothing.

    One number per row is kept, as row-wise Adam and Adagrad do for large tables. There is no momentum: a row's last
    update was an epoch ago, under other codewords, and its direction is of little use now.

    Args:
        table: (N, …), changed in place.
        decay: of the running mean square.
    """

    def __init__(self, table: Tensor, decay: float = 0.999) -> None:
        self.table = table
        self.decay = decay
        self.mean_square = torch.zeros(len(table), device=table.device)
        self.visits = torch.zeros(len(table), device=table.device)

    @torch.no_grad()
    def step(self, rows: Tensor, values: Tensor, grads: Tensor, rate: float) -> None:
        """One update of distinct rows.

        Args:
            rows: (n,) distinct row numbers.
            values: (n, …) the rows as they are in the table; overwritten.
            grads: (n, …) their gradients.
            rate: learning rate.
        """
        self.visits[rows] += 1
        square = grads.flatten(1).square().mean(dim=1)
        running = self.mean_square[rows].mul_(self.decay).add_(square, alpha=1 - self.decay)
        self.mean_square[rows] = running
        corrected = running / (1 - self.decay ** self.visits[rows])
        step = (rate / (corrected.sqrt() + 1e-12)).view(-1, *[1] * (grads.dim() - 1))
        self.table[rows] = values.addcmul_(grads, step, value=-1)

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {"mean_square": self.mean_square, "visits": self.visits}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave."""
        self.mean_square.copy_(state["mean_square"])
        self.visits.copy_(state["visits"])
