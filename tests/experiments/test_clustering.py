from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from clustering import KMEANS, TINY, VARIANTS, kmeans_reference, learn, starting_parts, summarise, thinned

SCHEDULE, CONSTANT, SOFT, WARM, GREEDY = (variant.name for variant in VARIANTS)


def test_only_for_soft_the_loss_differs_from_that_of_its_codes():
    task = replace(TINY, iterations=10)
    hard = learn(task, VARIANTS[0], seed=0)
    assert hard["loss"] == pytest.approx(hard["code_loss"], rel=1e-5)
    soft = learn(task, VARIANTS[2], seed=0)
    assert (soft["loss"] < soft["code_loss"]).all()


def test_learning_begins_with_the_points_as_they_are_and_measures_every_iteration():
    curves = learn(replace(TINY, iterations=8), VARIANTS[0], seed=0)
    assert {len(values) for values in curves.values()} == {9}
    assert curves["loss"][-1] < curves["loss"][0]
    assert curves["nmi"][-1] > curves["nmi"][0]
    again = learn(replace(TINY, iterations=8), VARIANTS[0], seed=0)
    assert all(np.array_equal(curves[name], again[name]) for name in curves)


@pytest.mark.parametrize("start", ["warm", "greedy"])
def test_a_warm_start_begins_at_the_codes_of_kmeans(start):
    points, _ = TINY.data(0)
    assignment, module = starting_parts(TINY, start, points, 0)
    codes = assignment.codes(torch.arange(TINY.points))
    distances = torch.cdist(points, module.codebook.detach()[0])
    assert torch.equal(codes[:, 0], distances.argmin(dim=1))
    fresh = starting_parts(TINY, "random", points, 0)[1]
    assert distances.amin(dim=1).mean() < 0.5 * torch.cdist(points, fresh.codebook.detach()[0]).amin(dim=1).mean()


def test_kmeans_is_measured_as_learning_is():
    found, learned = kmeans_reference(TINY, 0), learn(replace(TINY, iterations=1), VARIANTS[0], 0)
    assert found.keys() == learned.keys()
    assert 0.8 < found["nmi"][0] <= 1


def test_summaries_and_curves_are_over_seeds():
    rows = [
        {"variant": "a", "nmi": value} | dict.fromkeys(("loss", "code_loss", "changed", "lowest_loss"), value)
        for value in (1.0, 2.0, 6.0)
    ]
    (record,) = summarise(rows)
    assert (record["nmi"], record["nmi_min"], record["nmi_max"]) == (3, 1, 6)
    runs = [dict.fromkeys(("loss", "code_loss", "nmi", "changed"), np.arange(41.0) * factor) for factor in (1, 3)]
    curve = thinned(runs)
    assert curve["iteration"] == [*range(1, 21), 30, 40]
    assert (curve["loss_mean"][-1], curve["loss_min"][-1], curve["loss_max"][-1]) == (80, 40, 120)


def test_a_tiny_run_writes_what_was_kept(run_tiny, committed):
    folder, printed = run_tiny("clustering", "--seed", "2")
    result, kept = json.loads((folder / "results" / "clustering.json").read_text()), committed("clustering")
    assert result["settings"]["seeds"] == [2, 3]
    assert result.keys() >= kept.keys()  # older results lack where they are from
    assert result["settings"].keys() == kept["settings"].keys()
    for part in ("rows", "summary", "claims"):
        assert result[part][0].keys() == kept[part][0].keys()
    assert result["curves"].keys() == kept["curves"].keys()
    for row in result["rows"]:
        assert 0 <= row["nmi"] <= 1
        assert 0 <= row["changed"] <= 1
        assert row["loss"] >= row["lowest_loss"] > 0
    assert (folder / "figures" / "clustering.svg").stat().st_size > 10_000
    assert all(variant.name in printed for variant in VARIANTS)


def test_a_tiny_search_tries_the_rates(run_tiny, committed):
    folder, _ = run_tiny("clustering_search")
    result, kept = (
        json.loads((folder / "results" / "clustering_search.json").read_text()),
        committed("clustering_search"),
    )
    assert result.keys() >= kept.keys()  # older results lack where they are from
    assert result["rows"][0].keys() == kept["rows"][0].keys()
    assert len(result["rows"]) == 10


def test_the_kept_rates_were_picked_on_seeds_that_are_not_reported(committed):
    kept, search = committed("clustering"), committed("clustering_search")
    assert set(kept["settings"]["seeds"]).isdisjoint(search["settings"]["seeds"])
    for name in ("logit_rate", "codeword_rate"):
        assert kept["settings"][name] == search["picked"][name]
    tried = [row["nmi"] for row in search["rows"] if row["variant"] == SCHEDULE]
    assert search["picked"]["nmi"] == max(tried)
    # No rate and no constant temperature that was tried comes near the schedule.
    decaying = (SCHEDULE, "straight-through, decay 0.1")
    others = [row["nmi"] for row in search["rows"] if row["variant"] not in decaying]
    assert max(others) < search["picked"]["nmi"] - 0.03


def test_the_kept_result_shows_what_the_paper_says(committed):
    kept = committed("clustering")
    assert kept["settings"]["seed"] == 0
    assert not kept["settings"]["tiny"]
    wanted = {"points": 10_000, "clusters": 100, "dim": 10}
    assert wanted.items() <= kept["settings"].items()
    assert {"numpy", "torch", "kdcode"} <= kept["versions"].keys()
    by = {record["variant"]: record for record in kept["summary"]}
    assert list(by) == [SCHEDULE, CONSTANT, SOFT, WARM, GREEDY, KMEANS]
    assert by[SCHEDULE]["nmi"] >= 0.97
    assert by[SCHEDULE]["nmi_min"] >= max(by[CONSTANT]["nmi_max"], by[SOFT]["nmi_max"]) + 0.03
    assert by[SCHEDULE]["loss_max"] < min(by[CONSTANT]["loss_min"], by[SOFT]["loss_min"])
    assert by[SCHEDULE]["changed_max"] < 0.005
    assert min(by[CONSTANT]["changed_min"], by[SOFT]["changed_min"]) > 0.01
    assert by[SOFT]["loss"] > 10 * by[SOFT]["lowest_loss"]  # falls, then rises
    assert by[GREEDY]["nmi_min"] >= 0.995
    assert by[WARM]["nmi"] > by[SCHEDULE]["nmi"]


def test_the_kept_rows_are_those_of_the_kept_curves(committed):
    kept = committed("clustering")
    for name, curve in kept["curves"].items():
        ends = [row["nmi"] for row in kept["rows"] if row["variant"] == name]
        assert len(ends) == len(kept["settings"]["seeds"]) >= 5
        assert curve["nmi_mean"][-1] == pytest.approx(np.mean(ends), abs=2e-4)
        assert curve["nmi_min"][-1] == pytest.approx(min(ends), abs=2e-4)
