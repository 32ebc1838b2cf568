"""What the test of two ranks runs in each of them: python two_ranks.py RANK FILE OUT."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

from kdcode.nn import KDEmbedding, make_optimizer
from kdcode.nn.assignment import LEARNED

N, DIM, STEPS = 60, 6, 4


def fresh_model(assignment: str) -> nn.Module:
    """A small model, the same in every process."""
    torch.manual_seed(0)
    layer = KDEmbedding(N, DIM, codebook_size=4, code_length=3, assignment=assignment)
    return nn.Sequential(layer, nn.Linear(DIM, 2))


def batches() -> list[torch.Tensor]:
    """(STEPS) batches of two halves, one for each rank."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(N, (2, 8), generator=draw) for _ in range(STEPS)]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, halves: list[torch.Tensor]) -> None:
    """One step for each batch."""
    for ids in halves:
        optimizer.zero_grad()
        model(ids).square().mean().backward()
        optimizer.step()


def main() -> None:
    """Train a model of every kind as one of two ranks, and save what came of it."""
    rank, meeting, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    found = {}
    for assignment in LEARNED:
        for order in ("sparse", "dense"):
            model = fresh_model(assignment)
            if order == "sparse":  # the optimiser makes gradients sparse, before the model is wrapped
                optimizer = make_optimizer(model)
                wrapped = DistributedDataParallel(model)
            else:
                wrapped = DistributedDataParallel(model)
                optimizer = make_optimizer(wrapped)
            train(wrapped, optimizer, [ids[rank] for ids in batches()])
            found[f"{assignment} {order}"] = {
                "state": model.state_dict(),
                "codes": model[0].codes,
                "is_sparse": model[0].assignment.rows.weight.grad.is_sparse,
            }
    torch.save(found, out / f"{rank}.pt")
    destroy_process_group()
    # Worker threads of gloo may still hold tensors. A thread that lets go of one while the interpreter ends
    # aborts the process (pytorch/pytorch#179291), so this process ends without that phase.
    os._exit(0)


if __name__ == "__main__":
    main()
