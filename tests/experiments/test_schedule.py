from __future__ import annotations

from schedule import Schedule


def test_the_temperature_falls_by_the_formula_worked_out_by_hand():
    falling = Schedule(initial=2.0, decay=0.5)
    assert [falling.at(update) for update in (0, 1, 2, 6)] == [2.0, 4 / 3, 1.0, 0.5]


def test_without_decay_the_temperature_is_constant():
    assert {Schedule(0.3).at(update) for update in (0, 1, 1000)} == {0.3}
