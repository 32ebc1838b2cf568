"""An optimiser for models with learned codes: row-wise steps for the tables that codes come from, Adam for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from kdcode.errors import OptionError
from kdcode.nn.assignment import LearnedAssignment

ROW_RATE = 0.1
"""Learning rate of logits and queries: the root mean square of a row's step."""

_EPSILON = 1e-12


class RowAdam(torch.optim.AdamW):
    """AdamW, but for groups with `row_wise=True`: there, steps are divided by the root mean square of each row alone.

    A row-wise step costs what the rows in the batch cost, where gradients are sparse; others are not touched. Two
    numbers per row are kept. There is no momentum: a row's last gradient may be an epoch old.

    Args:
        groups: parameters, or groups of them, as `parameter_groups` gives them.
        lr: learning rate of groups that have none of their own.
        weight_decay: of groups that are not row-wise.
        row_decay: of the running mean square of a row.
    """

    def __init__(
        self, groups: Iterable[Any], lr: float = 1e-3, *, weight_decay: float = 0.0, row_decay: float = 0.999
    ) -> None:
        super().__init__(groups, lr=lr, weight_decay=weight_decay)
        self.row_decay = row_decay

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """One update of all parameters that have gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        aside: list[tuple[nn.Parameter, Tensor]] = []
        for group in self.param_groups:
            if group.get("row_wise"):
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._row_step(parameter, parameter.grad, group["lr"])
                        aside.append((parameter, parameter.grad))
                        parameter.grad = None  # so that Adam leaves it alone
        super().step()
        for parameter, grad in aside:
            parameter.grad = grad
        return loss

    def _row_step(self, table: nn.Parameter, grad: Tensor, rate: float) -> None:
        if grad.is_sparse:
            grad = grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
        else:
            rows = grad.flatten(1).any(dim=1).nonzero()[:, 0]
            values = grad.index_select(0, rows)
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)  # of each row
            state["mean_square"] = torch.zeros(len(table), device=table.device)
        visits = state["step"].index_select(0, rows) + 1
        square = values.float().flatten(1).square().mean(dim=1)
        running = state["mean_square"].index_select(0, rows).lerp_(square, 1 - self.row_decay)
        state["step"].index_copy_(0, rows, visits)
        state["mean_square"].index_copy_(0, rows, running)
        size = rate / ((running / (1 - self.row_decay**visits)).sqrt() + _EPSILON)
        table.index_add_(0, rows, (values * size[:, None]).to(table.dtype), alpha=-1)


def parameter_groups(model: nn.Module, *, row_lr: float = ROW_RATE) -> list[dict[str, Any]]:
    """The parameters of a model in two groups: all others, and the tables that learned codes come from.

    For people who bring their own optimiser. The second group has `row_wise=True`, and the learning rate of steps that
    are divided by the size of each row's gradient.

    Args:
        model: with one or more layers that learn codes.
        row_lr: learning rate of those tables.

    Raises:
        OptionError: the model has no layer that learns codes.
    """
    tables = [module.rows.weight for module in _learned(model)]
    if not tables:
        raise OptionError("the model has no layer that learns codes; replace an nn.Embedding by kdcode.nn.KDEmbedding")
    taken = {id(table) for table in tables}
    others = [weight for weight in model.parameters() if id(weight) not in taken and weight.requires_grad]
    rows = {"params": tables, "lr": row_lr, "weight_decay": 0.0, "row_wise": True}
    return [{"params": others, "row_wise": False}, rows]


def make_optimizer(
    model: nn.Module, lr: float = 1e-3, *, row_lr: float = ROW_RATE, weight_decay: float = 0.0
) -> RowAdam:
    """A ready optimiser for a model with layers that learn codes.

    Gradients of the tables that codes come from are made sparse, so that a step costs the same however many symbols
    there are. Call it before the model is wrapped in DistributedDataParallel, which looks for sparse gradients once, in
    the beginning; of a model that is wrapped already, gradients are left as they are.

    To clip gradients, clip those of the first group: `clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)`.
    Row-wise steps do not depend on the size of gradients, and torch cannot clip sparse ones.

    Args:
        model: with one or more `KDEmbedding` layers.
        lr: learning rate of all other parameters.
        row_lr: learning rate of logits and queries.
        weight_decay: of all other parameters.

    Raises:
        OptionError: the model has no layer that learns codes.
    """
    groups = parameter_groups(model, row_lr=row_lr)
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        for module in _learned(model):
            module.rows.sparse = True
    return RowAdam(groups, lr, weight_decay=weight_decay)


def _learned(model: nn.Module) -> list[LearnedAssignment]:
    return [module for module in model.modules() if isinstance(module, LearnedAssignment)]
