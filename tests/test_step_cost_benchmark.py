import json
from pathlib import Path

from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "step_cost.py"
RESULTS = BENCHMARK.parent / "results" / "step_cost.json"


def test_a_tiny_run_measures_every_layer(tmp_path):
    output = tmp_path / "out.json"
    printed = printed_by(BENCHMARK, "--tiny", "--output", output)
    result, kept = json.loads(output.read_text()), json.loads(RESULTS.read_text())
    layers = list(dict.fromkeys(row["layer"] for row in kept["rows"]))
    assert list(dict.fromkeys(row["layer"] for row in result["rows"])) == layers
    assert all(f"| {layer} | 2,000 |" in printed for layer in layers)
    assert all(row["ms_low"] <= row["ms"] <= row["ms_high"] and row["ratio"] > 0 for row in result["rows"])
    assert all(row["ratio"] == 1 for row in result["rows"] if row["symbols"] == 200)
    assert result.keys() == kept.keys()
    assert result["rows"][0].keys() == kept["rows"][0].keys()


def test_a_million_symbols_take_a_step_as_long_as_ten_thousand():
    """What the kept measurement says."""
    rows = {(row["layer"], row["symbols"]): row for row in json.loads(RESULTS.read_text())["rows"]}
    assert rows["query", 1_000_000]["ratio"] <= 1.2
    assert rows["free", 1_000_000]["ratio"] <= 1.2
    assert rows["free, dense", 100_000]["ratio"] > 3
