"""The LSTM of the large model beside torch's own, forward and backward."""

from __future__ import annotations

import lstm_bfloat16
import pytest
import torch
from lstm_bfloat16 import lstm_in_bfloat16
from torch import nn


def both(monkeypatch=None):
    """Outputs and gradients of torch's LSTM and of this one for the same weights."""
    if monkeypatch is not None:
        monkeypatch.setattr(lstm_bfloat16, "ROUNDED", torch.float32)
    torch.manual_seed(0)
    layers = nn.LSTM(7, 7, num_layers=2)
    state = (torch.randn(2, 3, 7), torch.randn(2, 3, 7))
    seen = []
    for run in (layers, lambda vectors, first: lstm_in_bfloat16(layers, vectors, first)):
        vectors = torch.linspace(-1, 1, 5 * 3 * 7).view(5, 3, 7).requires_grad_()
        layers.zero_grad()
        hidden, (last, memory) = run(vectors, state)
        (hidden * torch.arange(5.0)[:, None, None]).sin().sum().backward()
        found = {"hidden": hidden, "last": last, "memory": memory, "vectors": vectors.grad}
        found |= {name: weight.grad for name, weight in layers.named_parameters()}
        seen.append({name: value.detach().clone() for name, value in found.items()})
    return seen


def test_without_rounding_it_is_torchs(monkeypatch):
    torchs, own = both(monkeypatch)
    for name, value in torchs.items():
        torch.testing.assert_close(
            own[name], value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_rounding_costs_less_than_a_hundredth():
    torchs, own = both()
    for name, value in torchs.items():
        assert float((own[name] - value).norm() / value.norm()) < 0.01, name
        assert own[name].dtype is torch.float32


def test_dropout_lies_between_layers_in_training_alone():
    layers = nn.LSTM(7, 7, num_layers=2, dropout=0.9)
    vectors = torch.randn(5, 3, 7)
    first, second = (lstm_in_bfloat16(layers, vectors, None)[0] for _ in range(2))
    assert not torch.equal(first, second)
    layers.eval()
    first, second = (lstm_in_bfloat16(layers, vectors, None)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert first.flatten().tolist() == pytest.approx(layers(vectors)[0].flatten().tolist(), abs=0.02)
