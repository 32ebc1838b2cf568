"""The benchmark of a sentence encoder runs, and what it found is what the recipes promise."""

import json
from pathlib import Path

import pytest
from scripts import printed_by

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "sentence_encoder.py"
RESULTS = BENCHMARK.parent / "results" / "sentence_encoder.json"


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text())


def test_a_tiny_run_measures_tokens_and_retrieval(tmp_path, kept):
    output = tmp_path / "out.json"
    printed_by(BENCHMARK, "--tiny", "--output", output)
    result = json.loads(output.read_text())
    tokens, retrieval = result["rows"]
    assert tokens["full_bytes"] >= 4 * tokens["bytes"]
    assert tokens["sentence_cosine"] > 0.9
    assert retrieval["table"] == "300 x 32"
    assert retrieval["reranked_recall_at_10"] >= retrieval["query_recall_at_10"] > 0.5
    assert tokens.keys() == kept["rows"][0].keys()
    assert retrieval.keys() == kept["rows"][-1].keys()


def test_the_kept_result_is_what_the_recipes_promise(kept):
    rows = {(row["part"], row["times"]): row for row in kept["rows"]}
    assert set(rows) == {(part, times) for part in ("tokens", "retrieval") for times in (10, 20, 40)}
    assert rows["tokens", 10]["sentence_cosine"] > 0.98
    assert rows["retrieval", 10]["reranked_recall_at_10"] > 0.98
    for (_, times), row in rows.items():
        assert row["bytes"] <= row["full_bytes"] / times
