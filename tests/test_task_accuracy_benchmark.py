"""The benchmark of task accuracy runs, and what it found is what README promises."""

import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "task_accuracy.py"
RESULTS = BENCHMARK.parent / "results" / "task_accuracy.json"


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text())


def test_a_tiny_run_measures_every_copy(tmp_path, kept):
    output = tmp_path / "out.json"
    printed_by(BENCHMARK, "--tiny", "--output", output)
    result = json.loads(output.read_text())
    assert result["settings"].keys() == kept["settings"].keys()
    names = [row["name"] for row in result["rows"]]
    assert names == ["float32 rows", "int8 rows", "kdcode, 4x", "kdcode, 4x, unweighted"]
    full, integers, coded, unweighted = result["rows"]
    assert full["relative_error"] == 0 < unweighted["relative_error"] < 0.001
    assert 0 < integers["relative_error"] < 0.001
    assert full["made_replaced"] == full["made_trained"] > 0.75
    assert integers["ratio"] == pytest.approx(50 * 4 / 52, abs=1e-3)
    assert coded["ratio"] >= 4
    assert coded["relative_error"] != unweighted["relative_error"]
    new = {"low_cosine", "least_cosine"}  # which the kept result does not have yet
    assert {key.replace("made", "trec") for key in coded} - new < kept["rows"][2].keys()


def test_the_kept_result_is_what_the_project_promises(kept):
    rows = {row["name"]: row for row in kept["rows"]}
    sizes = [f"kdcode, {times}x" for times in (10, 20, 40)]
    assert list(rows) == ["float32 rows", "int8 rows", *sizes, *(f"{name}, unweighted" for name in sizes)]
    assert kept["settings"]["seeds"] >= 5
    assert kept["settings"]["sentences"] == {"trec": [5452, 500], "sst2": [6920, 1821]}
    for task in kept["settings"]["sentences"]:
        full = rows["float32 rows"][f"{task}_replaced"]
        for name, lost in {"int8 rows": 0.01, "kdcode, 10x": 0.01, "kdcode, 20x": 0.02, "kdcode, 40x": 0.05}.items():
            assert rows[name][f"{task}_replaced"] >= full - lost
        assert rows["kdcode, 40x"][f"{task}_replaced"] > rows["kdcode, 40x, unweighted"][f"{task}_replaced"]
    for times, name in zip((10, 20, 40), sizes, strict=True):
        assert rows[name]["ratio"] >= times
