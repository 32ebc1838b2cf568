from __future__ import annotations

import numpy as np
import pytest
import torch
from task_training import TaskTrainer, mean_and_deviation, optimizer_for, size_of
from torch import nn

import kdcode
from kdcode.nn import KDEmbedding, RowAdam

TARGETS = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))


def model_of(kind: str) -> nn.Sequential:
    torch.manual_seed(0)
    layer = nn.Embedding(40, 8) if kind == "full" else KDEmbedding(40, 8, size="2x")
    return nn.Sequential(layer, nn.Dropout(0.1), nn.Linear(8, 8))


def trained(kind: str, epochs: int, checkpoint=None, stop_at: int | None = None) -> tuple[nn.Module, TaskTrainer]:
    model = model_of(kind)
    trainer = TaskTrainer(model, optimizer_for(model, 1e-2), epochs, seed=1, checkpoint=checkpoint)
    calls = []

    def say(line: str) -> None:
        calls.append(line)
        if stop_at == len(calls) and checkpoint is not None:
            raise KeyboardInterrupt

    def error(ids: torch.Tensor) -> torch.Tensor:
        return (model(ids) - TARGETS[ids]).square().mean()

    def score() -> float:
        with torch.no_grad():
            return -float(error(torch.arange(40)))

    trainer.fit(lambda: torch.randperm(40).split(10), error, score, say)
    return model, trainer


@pytest.mark.parametrize("kind", ["full", "learned"])
def test_a_run_that_is_taken_up_again_ends_the_same(kind, tmp_path):
    whole, first = trained(kind, 4)
    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        trained(kind, 4, path, stop_at=3)
    torch.manual_seed(99)  # what was drawn in between must not matter
    again, second = trained(kind, 4, path)
    assert first.progress.valid == pytest.approx(second.progress.valid)
    for name, value in whole.state_dict().items():
        assert torch.allclose(value.float(), again.state_dict()[name].float()), name


def test_the_best_epoch_is_kept():
    model = nn.Linear(1, 1)
    trainer = TaskTrainer(model, torch.optim.SGD(model.parameters(), lr=1.0), 3, seed=0)
    scores, seen = iter([1.0, 3.0, 2.0]), []

    def score() -> float:
        seen.append(model.bias.detach().clone())
        return next(scores)

    run = trainer.fit(lambda: [torch.ones(1, 1)], lambda x: model(x).sum(), score)
    assert run.best_epoch == 1
    assert torch.equal(model.bias.detach(), seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert not model.training


def test_rates_fall_and_codes_have_the_optimizer_of_the_library():
    assert isinstance(optimizer_for(model_of("learned"), 1e-3, 0.5), RowAdam)
    assert not isinstance(optimizer_for(model_of("full"), 1e-3), RowAdam)
    assert optimizer_for(model_of("learned"), 1e-3, 0.5).param_groups[1]["lr"] == 0.5
    _, trainer = trained("full", 2)
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * (1 - 7 / 8))


def test_the_size_of_a_layer_is_that_of_its_table():
    rows = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
    coded = kdcode.compress(rows, codebook_size=8, code_length=4, composition="product", effort="fast")
    for learn_codes in (False, True):
        layer = KDEmbedding.from_coded(coded, learn_codes=learn_codes)
        assert size_of(layer)["bytes"] == coded.sizes.embedding
    assert size_of(nn.Embedding(60, 8)) == {"bytes": 60 * 8 * 4, "smaller": 1.0}


def test_one_value_has_no_deviation():
    assert mean_and_deviation([3.0]) == (3.0, 0.0)
    assert mean_and_deviation([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
