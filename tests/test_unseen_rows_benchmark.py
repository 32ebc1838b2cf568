import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "unseen_rows.py"


@pytest.mark.slow
def test_a_tiny_run_is_measured(tmp_path):
    pytest.importorskip("faiss")
    output = tmp_path / "out.json"
    flags = ["--positions", "2", "--methods", "learn_codebook, fast;faiss PQ;faiss LSQ", "--threads", "1"]
    printed_by(BENCHMARK, *flags, "--output", output, "--work", tmp_path / "work")
    kept = json.loads((BENCHMARK.parent / "results" / "unseen_rows.json").read_text())
    result = json.loads(output.read_text())
    assert result.keys() == kept.keys()
    assert [row["method"] for row in result["rows"]] == ["faiss LSQ", "faiss PQ"] + ["learn_codebook, fast"] * 5
    for row in result["rows"]:
        assert row.keys() == kept["rows"][0].keys()
        assert 0 < row["seen_error"] < row["unseen_error"] < 1
        assert row["share_of_lsq_time"] > 0
