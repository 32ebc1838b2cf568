import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "plans.py"


@pytest.mark.slow
def test_a_tiny_run_is_measured(tmp_path):
    output = tmp_path / "out.json"
    printed_by(BENCHMARK, "--tiny", "--output", output, "--work", tmp_path / "work")
    kept = json.loads((BENCHMARK.parent / "results" / "plans.json").read_text())
    result = json.loads(output.read_text())
    [row] = result["rows"]
    assert result.keys() == kept.keys()
    assert row.keys() == kept["rows"][0].keys()
    assert row["plan_seconds"] > 0
    assert row["ratio"] >= 10
