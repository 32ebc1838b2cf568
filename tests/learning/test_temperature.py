from __future__ import annotations

import pytest

from kdcode.errors import OptionError
from kdcode.learning.temperature import ConstantTemperature, DecayingTemperature


def test_a_constant_temperature_stays():
    assert {ConstantTemperature(0.5).at(update, update // 10) for update in range(100)} == {0.5}


def test_decay_follows_the_paper_by_update():
    schedule = DecayingTemperature(1.0, 1.0, "update")
    assert [schedule.at(update, 0) for update in range(4)] == [1, 1 / 2, 1 / 3, 1 / 4]


def test_decay_by_epoch_ignores_updates():
    schedule = DecayingTemperature(2.0, 0.5, "epoch")
    assert [schedule.at(99, epoch) for epoch in (0, 2, 6)] == [2.0, 1.0, 0.5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConstantTemperature(0),
        lambda: DecayingTemperature(-1.0),
        lambda: DecayingTemperature(1.0, -0.1),
        lambda: DecayingTemperature(1.0, 1.0, "day"),
    ],
)
def test_senseless_schedules_are_refused(make):
    with pytest.raises(OptionError):
        make()
