"""The temperature of a model's layers falls by one call per step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kdcode.errors import OptionError
from kdcode.nn import KDEmbedding, TemperatureSchedule


def layer():
    return KDEmbedding(10, 6, codebook_size=4, code_length=3)


def test_all_layers_follow_from_start_to_end():
    model = nn.ModuleList([layer(), nn.Linear(2, 2), layer()])
    schedule = TemperatureSchedule(model, steps=4, start=2.0, end=0.5)
    seen = [model[0].temperature]
    for _ in range(5):
        schedule.step()
        assert model[0].temperature == model[2].temperature
        seen.append(model[0].temperature)
    assert seen == pytest.approx([2, 2**0.5, 1, 2**-0.5, 0.5, 0.5])


def test_state_goes_round():
    model = layer()
    schedule = TemperatureSchedule(model, steps=10)
    for _ in range(7):
        schedule.step()
    other = layer()
    again = TemperatureSchedule(other, steps=10)
    again.load_state_dict(schedule.state_dict())
    assert other.temperature == model.temperature < 1


def test_a_lower_temperature_sharpens_gradients():
    module = KDEmbedding(10, 6, codebook_size=4, code_length=3, assignment="free")
    with torch.no_grad():
        module.assignment.logits.normal_(0, 3)
    shares = []
    for temperature in (1.0, 0.1):
        TemperatureSchedule(module, steps=1, start=temperature, end=temperature)
        module.zero_grad()
        module(torch.arange(10)).square().sum().backward()
        size = module.assignment.rows.weight.grad.abs().view(10, 3, 4)
        shares.append(float((size > 0.01 * size.max()).float().mean()))
    assert shares[1] < shares[0]


@pytest.mark.parametrize("arguments", [{"steps": 0}, {"steps": 5, "start": 0.0}, {"steps": 5, "end": -1.0}])
def test_numbers_that_are_not_positive_are_refused(arguments):
    with pytest.raises(OptionError, match="must be positive"):
        TemperatureSchedule(layer(), **arguments)


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(OptionError, match="no layer that learns codes"):
        TemperatureSchedule(nn.Linear(2, 2), steps=5)


def test_the_papers_formula():
    model = layer()
    schedule = TemperatureSchedule(model, start=2.0, decay=0.5)
    seen = [model.temperature]
    for _ in range(4):
        schedule.step()
        seen.append(model.temperature)
    assert seen == pytest.approx([2 / (1 + 0.5 * step) for step in range(5)])


def test_the_two_formulas_are_not_mixed():
    for wrong in ({}, {"steps": 5, "decay": 1.0}, {"decay": 1.0, "end": 0.5}):
        with pytest.raises(OptionError, match="give steps, or else decay"):
            TemperatureSchedule(layer(), **wrong)
    with pytest.raises(OptionError, match="must be positive"):
        TemperatureSchedule(layer(), decay=0.0)
