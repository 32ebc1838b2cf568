from __future__ import annotations

import json

import numpy as np
import pytest
import related

METHODS = [*related.METHODS, *map(related.hash_name, related.HASHES)]
UNSEEN = [
    "encoder: network, rows it learned from",
    "encoder: network",
    "encoder: beam search",
    "straight-through: beam search",
]


@pytest.fixture(scope="module")
def tiny(run_tiny):
    folder, printed = run_tiny("related", "--seed", "4")
    return json.loads((folder / "results" / "related.json").read_text()), printed, folder


@pytest.fixture(scope="module")
def kept(committed):
    return committed("related")


def errors_of(kept, shape):
    rows = [row for row in kept["rows"] if (row["codebook_size"], row["code_length"]) == shape]
    return {row["method"]: row["relative_error"] for row in rows}


def test_hashes_depend_on_symbol_number_and_seed_alone():
    buckets = related.hash_symbols(["a", "b", "c", "b"], 1000, 3, seed=0)
    assert buckets.shape == (4, 3)
    assert buckets[1].tolist() == buckets[3].tolist()
    assert len({*buckets.ravel().tolist()}) == 9  # 9 draws of 1000: no two are equal here
    assert related.hash_symbols(["b"], 1000, 3, seed=0).tolist() == [buckets[1].tolist()]
    assert related.hash_symbols(["b"], 1000, 3, seed=1).tolist() != [buckets[1].tolist()]
    many = related.hash_symbols([str(number) for number in range(5000)], 10, 1, seed=0)
    assert np.bincount(many.ravel(), minlength=10).min() > 400  # 500 are expected, with a spread of 21


def test_one_hash_gives_the_mean_of_the_words_that_share_a_row():
    vectors = np.array([[1, 2], [3, 4], [10, 20]], dtype=np.float32)
    shared = related.fit_hashed(vectors, np.array([[2], [2], [0]]), 4)
    np.testing.assert_allclose(shared, [[10, 20], [0, 0], [2, 3], [0, 0]], rtol=1e-5, atol=1e-12)


def test_summed_rows_are_the_least_squares_solution():
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(60, 4)).astype(np.float32)
    buckets = draw.integers(0, 15, size=(60, 3))
    hits = np.zeros((60, 15))
    np.add.at(hits, (np.arange(60)[:, None], buckets), 1)
    expected = np.linalg.lstsq(hits, vectors.astype(np.float64), rcond=None)[0]
    np.testing.assert_allclose(related.fit_hashed(vectors, buckets, 15), expected, atol=1e-4)


def test_neighbour_overlap_by_hand():
    true = np.array([[1, 0], [1, 0.1], [0, 1], [-1, 0.3]], dtype=np.float32)
    swapped = true[[0, 3, 2, 1]]
    rows = np.arange(4)
    assert related.neighbour_overlap(true, 3 * true, rows, 2) == 1
    # nearest single rows: 1, 0, 3, 2 in the one, and 3, 2, 1, 0 in the other
    assert related.neighbour_overlap(true, swapped, rows, 1) == 0
    assert related.neighbour_overlap(true, swapped, rows, 3) == 1
    # the two nearest of row 0 are {1, 2} and {3, 2}
    assert related.neighbour_overlap(true, swapped, rows[:1], 2) == 0.5


def test_a_tiny_run_measures_prints_and_draws(tiny, kept):
    result, printed, folder = tiny
    assert result.keys() >= kept.keys()
    assert result["settings"].keys() == kept["settings"].keys()
    assert result["settings"]["seed"] == 4
    assert [row["method"] for row in result["rows"]] == METHODS + UNSEEN
    assert all(row.keys() == kept["rows"][0].keys() for row in result["rows"])
    errors = errors_of(result, (8, 6))
    assert errors["straight-through"] < 0.7 * errors["random codes"]
    assert "4 hashes, summed (table)" in printed
    assert (folder / "figures" / "related.svg").stat().st_size > 1000


def test_a_second_run_goes_on_from_what_is_kept(tiny, run_tiny):
    result, _, folder = tiny
    (folder / "work" / "related-seed4-tiny" / "8x6-1-hash.json").unlink()
    run_tiny("related", "--seed", "4", folder=folder)
    again = json.loads((folder / "results" / "related.json").read_text())
    for before, after in zip(result["rows"], again["rows"], strict=True):
        if before["method"] != "1 hash":
            assert after == before
        assert after["relative_error"] == before["relative_error"]


def test_the_kept_result_has_all_rows(kept):
    settings = kept["settings"]
    assert (settings["num_embeddings"], settings["embedding_dim"], settings["tiny"]) == (10_000, 100, False)
    assert set(settings["methods"]) <= set(related.METHODS)
    assert {"kdcode", "numpy", "torch", "scipy", "python"} <= kept["versions"].keys()
    assert kept["date"]
    assert kept["seconds"] > 0
    shapes = [(row["codebook_size"], row["code_length"], row["method"]) for row in kept["rows"]]
    methods = [name for name in METHODS if name in settings["methods"] or "hash" in name]
    assert shapes == [(*shape, name) for shape in related.SHAPES for name in methods + UNSEEN]


@pytest.mark.parametrize(("shape", "total"), [((16, 32), 10_000 * 16 + 102_400), ((50, 10), 10_000 * 8 + 100_000)])
def test_the_kept_methods_take_equal_bytes(kept, shape, total):
    rows = [row for row in kept["rows"] if (row["codebook_size"], row["code_length"]) == shape]
    for row in rows:
        if row["vectors"] == "table":
            assert total - 200 < row["bytes"] <= total, row["method"]  # hashing rounds down to whole rows


@pytest.mark.parametrize("shape", related.SHAPES)
def test_what_the_kept_result_shows(kept, shape):
    error = errors_of(kept, shape)
    learned = [name for name in kept["settings"]["methods"] if name != "random codes"]
    for name in learned:
        assert error[name] < 0.5 * error["1 hash"] < 0.5 * error["random codes"], name
    assert error["straight-through"] < error["Algorithm 1"]
    assert error["encoder with refinement"] < error["encoder"]
    # a sum of several hashed rows is no better than one: what counts is how many numbers are fitted
    assert error["2 hashes, summed"] == pytest.approx(error["1 hash"], rel=0.03)
    # the network's codes of unseen rows are worse than those of its own rows and far better than no learning at all
    assert error["encoder: network, rows it learned from"] < error["encoder: network"] < 0.6 * error["1 hash"]
    # and a search under the same codebook is better than the network
    assert error["encoder: beam search"] < error["encoder: network"]
