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
from lookup_contenders import spec_of  # noqa: E402
from made_tables import made_table  # noqa: E402
from search import CODES, FLAT, METRICS, TABLES, disagreements, distances, searchers  # noqa: E402

RESULTS = FOLDER / "results" / "search.json"
CELLS = list(itertools.product(TABLES, METRICS, (1, 64)))

MOST_OF_FAISS = 1.5
"""What a search may take, in times of faiss with the same codes."""
MOST_OF_FLAT = {1: 5.0, 64: 0.5}
"""What it may take at a size, in times of faiss with the full vectors, by the queries in a call."""

is_measured = pytest.mark.skipif(not RESULTS.exists(), reason="benchmarks/search.py has not been run")


def measured_here(script, arguments, kept, threads, minutes=None, isa=""):
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
        rows.setdefault((row["table"], row["metric"], row["queries"]), {})[row["contender"]] = row
    return rows


def expected_in(table, metric):
    return {"kdcode", FLAT, *([CODES] if table in ("linear", "product") and metric != "cosine" else [])}


@pytest.mark.slow
def test_a_tiny_run_searches_in_every_way(tiny):
    result, printed = tiny
    cells = cells_of(result)
    assert cells.keys() == set(CELLS)
    for (table, metric, queries), rows in cells.items():
        assert expected_in(table, metric) - {CODES} <= rows.keys() <= expected_in(table, metric) | {CODES}
        for name, row in rows.items():
            assert 0 < row["ms_low"] <= row["ms"] <= row["ms_high"]
            assert f"| {table} | {metric} | {queries} | {name} |" in printed
        assert rows["kdcode"]["disagreements"] == 0


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_answer_is_counted(metric):
    coded = made_table(spec_of("linear", 20), 60)
    queries = np.random.default_rng(0).normal(size=(2, 20)).astype(np.float32)
    far = distances(coded.decode(np.arange(60)), queries[0], metric)
    exact = np.argsort(far)[:10]
    everyone = searchers(coded, metric)
    assert everyone.keys() == expected_in("linear", metric)
    assert [set(found) for found in everyone["kdcode"](queries[:1])] == [set(exact)]
    assert disagreements(coded, everyone["kdcode"], queries, metric) == 0
    furthest = int(far.argmax())
    assert disagreements(coded, lambda asked: [[furthest, *exact[:9]]], queries[:1], metric) == 1


@pytest.fixture
def kept():
    return json.loads(RESULTS.read_text())


@is_measured
def test_everything_is_measured_and_what_is_found_is_right(kept):
    assert cells_of(kept).keys() == set(CELLS)
    assert {row["rows"] for row in kept["rows"]} == {1_000_000}
    assert sum(row["disagreements"] for row in kept["rows"] if row["contender"] == "kdcode") == 0


@is_measured
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_search_is_as_quick_as_promised(kept, cell):
    rows = cells_of(kept)[cell]
    if cell[0] in ("linear", "product"):
        assert CODES not in rows or rows["kdcode"]["ms"] <= MOST_OF_FAISS * rows[CODES]["ms"]
    else:
        assert rows["kdcode"]["ratio"] <= MOST_OF_FLAT[cell[2]]
