import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "symbol_index.py"
RESULTS = BENCHMARK.parent / "results" / "symbol_index.json"


@pytest.mark.slow
def test_a_tiny_run_gives_one_record_per_index_and_size(tmp_path):
    output = tmp_path / "out.json"
    printed = printed_by(BENCHMARK, "--tiny", "--output", output)
    result, kept = json.loads(output.read_text()), json.loads(RESULTS.read_text())
    assert len(printed.splitlines()) == 1 + 12
    assert {(record["symbols"], record["index"]) for record in result["rows"]} == {
        (symbols, index)
        for symbols in (2000, 3000, 4000)
        for index in ("kdcode", "marisa-trie", "sorted array", "dict of text")
    }
    assert all(
        record[key] > 0 for record in result["rows"] for key in ("bytes_per_symbol", "open_ms", "warm_ns", "spread_ns")
    )
    assert result.keys() == kept.keys()
    assert result["rows"][0].keys() == kept["rows"][0].keys()
