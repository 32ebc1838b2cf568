"""The benchmark of searches: a tiny run measures everyone, and the kept result says what the pages say."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_process  # noqa: E402
from made_tables import made_table  # noqa: E402
from search import DECODED, DIM, METRICS, SPECS, decoding_search, disagreements, searchers  # noqa: E402

RESULTS = FOLDER / "results" / "search.json"
OURS = [("kdcode", 1), ("kdcode", 2), ("kdcode, not compiled", 1), (DECODED, 1)]
FAISS = [("faiss", 1), ("faiss", 2)]
CELLS = list(itertools.product(SPECS, METRICS, (1, 16)))

MOST_OF_FAISS = 1.5
"""What a search may take, in times of faiss with the same codes on as many threads."""
LEAST_OF_DECODING = {1: 5.0, 16: 2.0}
"""How many times longer it must take to decode all rows, by the queries in a call, which share the decoding."""

is_measured = pytest.mark.skipif(not RESULTS.exists(), reason="benchmarks/search.py has not been run")


def measured_here(script, arguments, kept, threads, minutes=None):
    """As `measured_apart`, in this process."""
    return json.loads(printed_by(Path(script), *arguments))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    output = tmp_path_factory.mktemp("search") / "out.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_process, "measured_apart", measured_here)
        printed = printed_by(FOLDER / "search.py", "--tiny", "--output", output)
    return json.loads(output.read_text()), printed


def cells_of(result):
    rows = {}
    for row in result["rows"]:
        rows.setdefault((row["table"], row["metric"], row["queries"]), {})[row["contender"], row["threads"]] = row
    return rows


def test_a_tiny_run_searches_in_every_way(tiny):
    result, printed = tiny
    cells = cells_of(result)
    assert list(cells) == CELLS
    for (table, metric, queries), rows in cells.items():
        assert list(rows) == (OURS if metric == "cosine" else OURS + FAISS)
        for row in rows.values():
            assert 0 < row["ms_low"] <= row["ms"] <= row["ms_high"]
            assert (row["ratio_to_faiss"] is None) == (metric == "cosine")
            assert f"| {table} | {metric} | {queries} | {row['contender']} | {row['threads']} |" in printed
        assert rows[DECODED, 1]["times_faster_than_decoding"] == 1
    assert all(row["disagreements"] == 0 for row in result["rows"] if row["contender"] != "faiss")


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_answer_is_counted(metric):
    coded = made_table(SPECS["linear K=16 D=32"], 60)
    queries = [np.random.default_rng(0).normal(size=(2, DIM)).astype(np.float32)]
    exact = [decoding_search(coded, metric, np.float64)(each) for each in queries]
    vectors = coded.decode(np.arange(60)).astype(np.float64)
    scores = vectors @ queries[0][0]
    if metric == "l2":
        scores = -np.linalg.norm(vectors - queries[0][0], axis=1)
    elif metric == "cosine":
        scores /= np.linalg.norm(vectors, axis=1)
    assert exact[0][0].tolist() == np.argsort(-scores)[:10].tolist()
    for searcher in searchers(coded, metric):
        assert disagreements(searcher, queries, exact) == 0
        wrong = searcher._replace(search=lambda asked, searcher=searcher: [[-1, *row[:9]] for row in exact[0]])
        assert disagreements(wrong, queries, exact) == 2


@pytest.fixture
def kept():
    return json.loads(RESULTS.read_text())


@is_measured
def test_everything_is_measured_and_what_is_found_is_right(kept, tiny):
    cells = cells_of(kept)
    assert list(cells) == CELLS
    assert kept["rows"][0].keys() == tiny[0]["rows"][0].keys()
    assert {row["rows"] for row in kept["rows"]} == {1_000_000}
    assert sum(row["disagreements"] for row in kept["rows"] if row["contender"].startswith("kdcode")) == 0


@is_measured
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_search_is_about_as_quick_as_with_faiss(kept, cell):
    rows = cells_of(kept)[cell]
    for threads in (1, 2):
        ours = rows["kdcode", threads]
        assert ours["ratio_to_faiss"] is None or ours["ratio_to_faiss"] <= MOST_OF_FAISS


@is_measured
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_search_takes_a_fraction_of_decoding_all_rows(kept, cell):
    assert cells_of(kept)[cell]["kdcode", 1]["times_faster_than_decoding"] >= LEAST_OF_DECODING[cell[2]]
