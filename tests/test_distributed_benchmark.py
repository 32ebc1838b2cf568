"""The benchmark of large tables runs, and what is kept of it is whole."""

import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "distributed.py"
RESULTS = BENCHMARK.parent / "results" / "distributed.json"
COMMANDS = {"learn-codebook", "encode, local", "encode, ray", "encode, sums", "assemble", "compress", "ranks"}


@pytest.mark.slow
def test_a_tiny_run_measures_every_command(tmp_path):
    output = tmp_path / "out.json"
    printed_by(BENCHMARK, "--tiny", "--work", tmp_path / "work", "--output", output)
    rows = json.loads(output.read_text())["rows"]
    assert {row["command"] for row in rows} == COMMANDS
    assert all(row["seconds"] > 0 and row["largest_mb"] > 0 and row["total_mb"] > 0 for row in rows)
    errors = [row["relative_error"] for row in rows if row["command"] == "ranks"]
    assert errors[1] == pytest.approx(errors[0], rel=0.005)
    kept = json.loads(RESULTS.read_text())["rows"]
    assert {frozenset(row) for row in rows} == {frozenset(row) for row in kept}


def test_the_kept_results_hold_what_the_page_says():
    rows = json.loads(RESULTS.read_text())["rows"]
    assert {row["command"] for row in rows} == COMMANDS
    whole = {row["rows"]: row for row in rows if row["command"] == "compress"}
    largest = whole[max(whole)]
    assert max(whole) == 10_000_000
    assert largest["total_mb"] < 4096
    assert largest["total_mb"] < 1.15 * whole[min(whole)]["total_mb"] + 100  # memory is flat in the rows
    errors = {row["workers"]: row["relative_error"] for row in rows if row["command"] == "ranks"}
    assert errors[2] == pytest.approx(errors[1], rel=0.005)
