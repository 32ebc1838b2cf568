"""Schedules of temperatures, and the water level that sets their scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kdcode.codec import CodewordSpec
from kdcode.learning.additive.annealing import SCHEDULES, Schedule, water_level
from kdcode.options import EFFORTS


def spec_of(length=16, composition="linear", **changes):
    return CodewordSpec.named(composition, 50, 16, length, **changes)


def test_every_effort_has_a_schedule_and_more_effort_more_rounds():
    assert set(SCHEDULES) == set(EFFORTS)
    fast, normal, best = (len(SCHEDULES[effort].plan(spec_of())) for effort in ("fast", "normal", "best"))
    assert fast < normal < best


@pytest.mark.parametrize(
    ("spec", "rounds"),
    [
        (spec_of(8), 1),
        (spec_of(9), 7),
        (spec_of(8, codeword_dim=20), 7),
        (spec_of(8, "product"), 7),
        (spec_of(8, "grouped"), 7),
    ],
)
def test_fast_anneals_only_where_beam_search_is_not_enough(spec, rounds):
    assert len(SCHEDULES["fast"].plan(spec)) == rounds


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("rotation", [False, True])
def test_product_codes_are_annealed_only_for_their_rotation(effort, rotation):
    rounds = SCHEDULES[effort].plan(spec_of(8, "product", rotation=rotation))
    annealed = [one for one in rounds if any(one.temperatures)]
    assert bool(annealed) == (rotation and effort != "fast")
    assert sum(one.descent for one in rounds) >= 6


def test_temperatures_fall_from_the_initial_one_and_end_in_descent():
    rounds = Schedule(warm=4, rounds=10, sweeps=3).plan(spec_of())
    assert rounds[0].beam > 0
    assert not rounds[0].temperatures
    (drawn,) = (number for number, one in enumerate(rounds) if math.inf in one.temperatures)
    warm, cold = rounds[1:drawn], rounds[drawn + 1 :]
    for part, count, sweeps in ((warm, 4, 2), (cold, 10, 3)):
        falling, descent = part[:count], part[count:]
        temperatures = [one.temperatures[0] for one in falling]
        assert temperatures == sorted(temperatures, reverse=True)
        assert temperatures[-1] == pytest.approx(0.4)
        assert {len(one.temperatures) for one in falling} == {sweeps}
        assert all(one.descent and set(one.temperatures) == {0.0} and one.steps is None for one in descent)
        assert len(descent) == 2
    assert cold[0].temperatures[0] == pytest.approx(2.8)
    assert warm[0].temperatures[0] == pytest.approx(1.0)


def test_the_water_level_fills_the_spectrum_up_to_the_error():
    spectrum = np.array([5.0, 3.0, 1.0, 0.5])
    assert water_level(spectrum, 2.5) == pytest.approx(2 / 3)  # 3θ + 0.5: the smallest is under water
    assert water_level(spectrum, 9.5) == pytest.approx(5.0)
    assert water_level(spectrum, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert water_level(np.zeros(3), 0.0) == 0
