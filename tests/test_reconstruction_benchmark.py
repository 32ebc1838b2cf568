from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "reconstruction.py"
RESULTS = BENCHMARK.parent / "results" / "reconstruction.json"


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text())


def tiny_record(name):
    return json.loads(printed_by(BENCHMARK, "--tiny", "--only", name))


def test_a_tiny_run_measures_one_row(kept):
    name = "straight-through, random start"
    record = tiny_record(name)
    assert record.keys() == next(row.keys() for row in kept["rows"] if row["name"] == name)
    assert record["rows"] == 300
    assert record["relative_error"] < 0.5


def test_a_learner_without_a_start_records_none():
    record = tiny_record("additive, fast")
    assert record["learner"] == "additive"
    assert "start" not in record


def test_the_kept_result_has_all_rows_with_settings_and_versions(kept):
    assert {record["name"] for record in kept["rows"]} == set(kept["settings"]["runs"])
    assert {"kdcode", "torch", "numpy", "python"} <= kept["versions"].keys()
    assert kept["date"]


def test_the_kept_result_is_what_the_project_promises(kept):
    error = {record["name"]: record["relative_error"] for record in kept["rows"]}
    assert error["straight-through, random start"] <= 0.33
    assert error["straight-through, warm start"] <= 0.28
    assert error["additive"] < 0.97 * error["straight-through, random start"]
    assert error["additive, best"] < error["additive"] < error["additive, fast"]
    assert error["product codes, rotated"] < 0.9 * error["product codes"]
    cosine = {record["name"]: record["mean_cosine"] for record in kept["rows"]}
    assert cosine["additive, with 4 bits of length"] > cosine["additive"]
    assert cosine["additive, for cosine"] > cosine["additive"]
    assert error["LSTM from additive codes"] < error["LSTM from random codes"]
    assert error["random codes"] > 2 * error["straight-through, random start"]
    assert all(record["peak_mb"] < 6 * 1024 for record in kept["rows"])
    assert {record["rows"] for record in kept["rows"]} == {10_000, 100_000}
