"""The benchmark on tables of other kinds: a tiny run, and what the page says of the committed one."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_process  # noqa: E402
from other_tables import (  # noqa: E402
    METHODS,
    NARROW,
    TABLES,
    TIMES,
    after_relu,
    clusters,
    heavy_tails,
    is_measured,
    sentences,
    sparse,
)


def measured_here(script, arguments, kept, threads, minutes=None):
    """As `measured_apart`, in this process."""
    return json.loads(printed_by(Path(script), *arguments))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other_tables")
    options = ["--tables", "tiny", "--times", "8,16", "--work", folder / "work", "--output", folder / "r.json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_process, "measured_apart", measured_here)
        printed_by(FOLDER / "other_tables.py", *options, "--threads", "1")
    return json.loads((folder / "r.json").read_text())["rows"]


def test_every_method_is_measured_within_the_bytes(rows):
    assert [(row["times"], row["method"]) for row in rows] == [(times, name) for times in (8, 16) for name in METHODS]
    for row in rows:
        assert (row["rows"], row["dim"]) == (600, 12)
        assert row["bytes"] is None or row["bytes"] <= 600 * 12 * 4 // row["times"]
        assert row["bytes"] is None or 0 < row["relative_error"] < 1


def test_the_tables_are_of_the_kinds_that_they_say():
    assert {f"narrow-{dim}" for dim in NARROW} <= set(TABLES)
    numbers = heavy_tails(None)
    assert numbers.shape == (20_000, 64)
    assert np.mean(numbers**4) > 10 * np.mean(numbers**2) ** 2  # 3 for normal numbers
    numbers = after_relu(None)
    assert numbers.shape == (10_000, 96)
    assert numbers.min() == 0
    assert 0.4 < (numbers == 0).mean() < 0.6
    numbers = sparse(None)
    assert numbers.shape == (10_000, 100)
    assert 0.94 < (numbers == 0).mean() < 0.96
    assert numbers.min() < 0
    numbers = clusters(None)
    assert numbers.shape == (20_000, 64)
    nearest = ((numbers[:200, None] - numbers[200:]) ** 2).sum(axis=2).min(axis=1)
    assert np.median(nearest) < 0.2 * numbers.var(axis=0).sum()


def test_sentences_are_those_of_the_encoder(tmp_path):
    from sentence_encoder import encode, tiny_model

    model, tokenizer = tiny_model(tmp_path)
    for name, text in (("trec", "1 the king of france\n0 music\n"), ("sst2", "1 a film\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test").write_text(text, encoding="latin-1")
    arguments = Namespace(encoder=tmp_path, tasks=tmp_path)
    found = sentences(arguments)
    np.testing.assert_allclose(found, encode(model, tokenizer, ["a film", "the king of france", "music"]), atol=1e-6)


def test_the_committed_result_has_every_cell():
    result = json.loads((FOLDER / "results" / "other_tables.json").read_text())
    found = {(row["table"], row["times"], row["method"]) for row in result["rows"]}
    every = {(name, times, method) for name in TABLES for times in TIMES for method in METHODS}
    assert found == {(name, times, method) for name, times, method in every if is_measured(name, method)}
