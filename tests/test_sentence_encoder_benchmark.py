"""The benchmark of a sentence encoder runs, and what it found is what the pages promise."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

FOLDER = Path(__file__).parent.parent / "benchmarks"
BENCHMARK = FOLDER / "sentence_encoder.py"
RESULTS = FOLDER / "results" / "sentence_encoder.json"
sys.path.insert(0, str(FOLDER))
from peers import ROW_PEERS  # noqa: E402
from sentence_encoder import sentence_changes  # noqa: E402

PEERS = [peer.name for peer in ROW_PEERS]


@pytest.fixture(scope="module")
def kept():
    return json.loads(RESULTS.read_text())


@pytest.mark.slow
def test_a_tiny_run_measures_tokens_and_retrieval(tmp_path, kept):
    output = tmp_path / "out.json"
    printed_by(BENCHMARK, "--tiny", "--work", tmp_path / "work", "--output", output)
    *tokens, retrieval = json.loads(output.read_text())["rows"]
    small = tokens[0]
    assert [row["method"] for row in tokens] == ["kdcode", *PEERS, *("kdcode" for _ in PEERS)]
    assert small["full_bytes"] >= 4 * small["bytes"]
    assert small["sentence_cosine"] > 0.9
    assert small["full_file_bytes"] - small["file_bytes"] > 0.7 * small["full_bytes"]
    assert small["loads_as_saved"]
    for own, ours in zip(tokens[1:4], tokens[4:], strict=True):
        assert ours["size"] == f"as {own['method']}"
        assert ours["bytes"] <= own["bytes"]
        assert ours["similarity_spearman"] > 0.9
    assert retrieval["table"] == "300 x 32"
    assert retrieval["reranked_recall_at_10"] >= retrieval["query_recall_at_10"] > 0.5
    assert small.keys() == kept["rows"][0].keys()
    assert retrieval.keys() == kept["rows"][-1].keys()


def test_what_becomes_of_sentences():
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    same = sentence_changes(vectors, vectors.copy())
    assert list(same.values()) == pytest.approx([1, 1, 1, 1], abs=1e-5)
    other = sentence_changes(vectors, vectors[::-1])
    assert other["sentence_cosine"] < 0.5
    assert other["sentence_recall_at_10"] < 0.6


def test_the_kept_result_is_what_the_pages_promise(kept):
    tokens = {(row["method"], row["size"]): row for row in kept["rows"] if row["part"] == "tokens"}
    retrieval = {row["times"]: row for row in kept["rows"] if row["part"] == "retrieval"}
    sizes = {("kdcode", size) for size in ("5x", "10x", "20x", "40x", *(f"as {name}" for name in PEERS))}
    assert set(tokens) == sizes | {(name, "its own") for name in PEERS}
    assert set(retrieval) == {10, 20, 40}
    assert tokens["kdcode", "10x"]["sentence_cosine"] > 0.98
    assert retrieval[10]["reranked_recall_at_10"] > 0.98
    for times, row in retrieval.items():
        assert row["bytes"] <= row["full_bytes"] / times
    for (_, size), row in tokens.items():
        if size.endswith("x"):
            assert row["bytes"] <= row["full_bytes"] / float(size.removesuffix("x"))
        elif size.startswith("as "):
            assert row["bytes"] <= tokens[size.removeprefix("as "), "its own"]["bytes"]
