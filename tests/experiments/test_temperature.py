from __future__ import annotations

import json
import math

import pytest
import temperature
import torch


def test_the_curve_is_the_logistic_function_worked_out_by_hand():
    x = torch.tensor([0.0, math.log(3), -math.log(3)], dtype=torch.float64)
    assert temperature.selected("soft", x, 1.0).tolist() == pytest.approx([0.5, 0.75, 0.25])
    assert temperature.selected("soft", x / 2, 0.5).tolist() == pytest.approx([0.5, 0.75, 0.25])


def test_straight_through_gives_a_step_and_the_gradient_of_the_smooth_curve():
    x = torch.tensor([-0.3, 0.2], dtype=torch.float64)
    assert temperature.selected("straight-through", x, 0.1).tolist() == [0.0, 1.0]
    y = 1 / (1 + math.exp(3)), 1 / (1 + math.exp(-2))
    expected = [value * (1 - value) / 0.1 for value in y]
    assert temperature.gradient("straight-through", x, 0.1).tolist() == pytest.approx(expected)


def check(result):
    assert [row["temperature"] for row in result["rows"]] == [10, 1, 0.5, 0.1, 0.01]
    for row in result["rows"]:
        assert row["value"] == pytest.approx(row["value_known"], abs=1e-12)
        assert row["width"] == pytest.approx(2 * math.log(9) * row["temperature"], rel=1e-9)
        assert row["slope"] == pytest.approx(1 / (4 * row["temperature"]), rel=1e-9)
        assert row["slope_at"] == pytest.approx(0, abs=1e-12)
        assert row["largest_difference_from_known"] < 1e-12
        assert row["largest_gradient_difference_from_soft"] < 1e-12 / row["temperature"]
        assert row["straight_through_is_a_step"]
    values = [row["value"] for row in result["rows"]]
    assert values == sorted(values)  # sharper as T falls
    times, falling = result["schedules"]["t"], result["schedules"]["decay 1"]
    assert falling == pytest.approx([1 / (1 + time) for time in times], rel=1e-3)


def test_a_tiny_run_writes_what_was_kept(run_tiny, committed):
    folder, printed = run_tiny("temperature", "--seed", "3")
    result = json.loads((folder / "results" / "temperature.json").read_text())
    check(result)
    assert result["settings"]["seed"] == 3
    assert "43.94449" in printed  # 2 ln 9 · 10
    assert (folder / "figures" / "temperature.svg").stat().st_size > 10_000
    kept = committed("temperature")
    check(kept)
    assert not kept["settings"]["tiny"]
    assert result.keys() >= kept.keys()  # older results lack where they are from
    assert result["rows"][0].keys() == kept["rows"][0].keys()
    assert {"numpy", "torch", "kdcode"} <= kept["versions"].keys()
    assert kept["date"]
