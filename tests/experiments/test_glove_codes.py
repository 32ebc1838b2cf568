from __future__ import annotations

import itertools
import json

import glove_codes
import numpy as np
import pytest
from glove_codes import CodedWords


@pytest.fixture
def words():
    draw = np.random.default_rng(3)
    vectors = glove_codes.unit_rows(draw.normal(size=(40, 5)))
    return CodedWords([f"w{row}" for row in range(40)], vectors, draw.integers(3, size=(40, 2)), 3)


@pytest.fixture(scope="module")
def tiny(run_tiny):
    folder, printed = run_tiny("glove_codes", "--seed", "4")
    page = (folder / "results" / "glove_codes.md").read_text(encoding="utf-8")
    return json.loads((folder / "results" / "glove_codes.json").read_text()), page, printed, folder


def test_cosines_within_codes_are_means_over_pairs(words):
    expected = []
    for code in sorted(words.members):
        pairs = list(itertools.combinations(words.members[code], 2))
        if pairs:
            expected.append(np.mean([words.vectors[one] @ words.vectors[other] for one, other in pairs]))
    np.testing.assert_allclose(words.group_cosines(), expected)


def test_cosines_by_difference_are_means_over_pairs(words):
    found = {0: [], 1: [], 2: []}
    for one, other in itertools.combinations(range(40), 2):
        found[int((words.codes[one] != words.codes[other]).sum())].append(words.vectors[one] @ words.vectors[other])
    np.testing.assert_allclose(words.cosines_by_difference(), [np.mean(found[count]) for count in range(3)])


def test_no_pair_gives_no_cosine():
    alone = CodedWords(["a", "b"], np.eye(2), np.array([[0, 1], [1, 0]]), 2)
    assert len(alone.group_cosines()) == 0
    assert np.isnan(alone.cosines_by_difference()).tolist() == [True, True, False]
    assert glove_codes.code_record(alone, (0, 1), "a")["mean_cosine"] is None


def test_random_groups_have_the_sizes_of_the_codes(words):
    other = words.shuffled(np.random.default_rng(0))
    assert sorted(map(len, other.members.values())) == sorted(map(len, words.members.values()))
    assert other.members != words.members


def test_words_of_a_set_share_codes():
    codes = np.array([[0, 0], [0, 0], [1, 0], [1, 1]])
    coded = CodedWords(["monday", "tuesday", "sunday", "red"], np.eye(4), codes, 2)
    assert coded.codes_of_set("monday tuesday sunday someday") == 2
    record = glove_codes.set_records(coded, [coded])[0]
    assert (record["set"], record["words"], record["codes"], record["which"]) == ("weekdays", 3, 2, "0-0 1-0")
    assert glove_codes.code_record(coded, (0, 0), "monday")["first_words"] == "monday tuesday"


def test_a_tiny_run_measures_shows_and_draws(tiny, committed):
    result, page, printed, folder = tiny
    kept = committed("glove_codes")
    assert result.keys() >= kept.keys()  # older results lack where they are from
    for part in ("rows", "similarity", "word_sets", "runs"):
        assert result[part][0].keys() == kept[part][0].keys()
    assert result["settings"]["seed"] == 4
    assert [run["seed"] for run in result["runs"]] == [4, 5] * 4
    first = result["runs"][: result["settings"]["seeds"]]
    shown = min(first, key=lambda run: run["relative_error"])
    assert result["settings"]["shown_seed"] == shown["seed"]
    assert result["similarity"][0]["mean_cosine"] == shown["mean_cosine_in_code"]
    assert result["word_sets"][0]["codes"] == shown["codes_of_weekdays"]
    assert "| weekdays | 7 |" in page
    assert f"| {result['rows'][0]['code']} | {result['rows'][0]['words']} |" in page
    assert "weekdays   7 words" in printed
    assert (folder / "figures" / "glove_codes.svg").stat().st_size > 1000


def test_the_kept_codes_hold_words_that_belong_together(committed):
    kept = committed("glove_codes")
    settings = kept["settings"]
    assert (settings["num_embeddings"], settings["codebook_size"], settings["code_length"]) == (10_000, 6, 4)
    assert not settings["tiny"]
    assert {"kdcode", "numpy", "torch", "python"} <= kept["versions"].keys()
    assert kept["date"]
    assert kept["seconds"] > 0
    within, *by_difference = kept["similarity"]
    for record in (within, by_difference[0]):
        assert record["mean_cosine"] > 2 * record["random_mean"]
        assert record["mean_cosine"] - record["random_mean"] > 10 * record["random_std"]
    falling = [record["mean_cosine"] for record in by_difference]
    assert falling == sorted(falling, reverse=True)
    assert by_difference[1]["mean_cosine"] > 2 * by_difference[4]["mean_cosine"]
    sets = {record["set"]: record for record in kept["word_sets"]}
    assert sets["weekdays"]["words"] == 7
    assert sets["weekdays"]["codes"] <= 2
    assert sets["months"]["codes"] <= 2
    assert all(record["codes"] < record["random_codes"] for record in sets.values())


def test_the_kept_runs_are_all_there_and_most_keep_weekdays_together(committed):
    runs = committed("glove_codes")["runs"]
    assert len(runs) == 4 * 5
    assert len({(run["rows"], run["start"], run["seed"]) for run in runs}) == 20
    assert sum(run["codes_of_weekdays"] <= 2 for run in runs) > len(runs) / 2


def test_the_page_shows_the_kept_rows(committed):
    results = glove_codes.Path(glove_codes.__file__).parent / "results"
    page = (results / "glove_codes.md").read_text(encoding="utf-8")
    assert page == glove_codes.page(committed("glove_codes"))
    assert "the weekdays take 1 to 5 codes, one or two in 14." in page
