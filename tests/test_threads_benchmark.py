import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "threads.py"
RESULTS = BENCHMARK.parent / "results" / "threads.json"


@pytest.mark.slow
def test_a_tiny_run_measures_every_case(tmp_path):
    output = tmp_path / "out.json"
    printed = printed_by(BENCHMARK, "--tiny", "--output", output)
    result, kept = json.loads(output.read_text()), json.loads(RESULTS.read_text())
    assert [json.loads(line) for line in printed.splitlines()] == result["rows"]
    assert [row["case"] for row in result["rows"]] == [row["case"] for row in kept["rows"]]
    assert all(row["seconds"] > 0 and row["cpu_seconds"] > 0 for row in result["rows"])
    assert len({row["relative_error"] for row in result["rows"]}) == 1  # other work changes nothing but the time
    assert result["rows"][0]["times_alone"] == 1
    assert result.keys() == kept.keys()
    assert result["rows"][0].keys() == kept["rows"][0].keys()
