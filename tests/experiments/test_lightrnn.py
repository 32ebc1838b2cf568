from __future__ import annotations

import json

import lightrnn
import pytest
from lightrnn import COMPACT, FULL, KINDS, RANDOM_SLOTS, SAME_BYTES, SAME_SHAPE, TOLERANCE
from matchings import EXACT, PRICED

from kdcode.codec import CodewordSpec


@pytest.fixture(scope="module")
def tiny(run_tiny):
    folder, printed = run_tiny("lightrnn", "--threads", "1", "--seed", "2")
    return json.loads((folder / "results" / "lightrnn.json").read_text()), printed, folder


@pytest.fixture
def kept(committed):
    if not (lightrnn.Path(lightrnn.__file__).parent / "results" / "lightrnn.json").exists():
        pytest.skip("there is no result yet")
    return committed("lightrnn")


def check_table(rows, words):
    """What must hold for the rows of any table."""
    target = lightrnn.best_of(rows, COMPACT)["embedding_bytes"]
    for row in rows:
        if row["row"] in (COMPACT, RANDOM_SLOTS):
            assert (row["codes_used"], row["most_words_of_a_code"]) == (words, 1)
        if row["row"] == SAME_SHAPE:
            assert (row["codebook_size"], row["code_length"]) == (words**0.5, 2)
            assert row["codes_used"] < words
        if row["row"] == SAME_BYTES:
            assert row["code_length"] > 2
        if row["row"] != FULL:
            assert abs(row["embedding_bytes"] - target) <= TOLERANCE * target
    error = {kind: lightrnn.best_of(rows, kind)["relative_error"] for kind in KINDS}
    assert error[SAME_SHAPE] < error[COMPACT] < error[RANDOM_SLOTS]
    return error


def check_matchings(records):
    """The chosen way is as good as the exact one, the cheap ones are not."""
    for words in {record["words"] for record in records}:
        own = {record["match"]: record for record in records if record["words"] == words}
        assert own[EXACT]["excess"] == 0
        assert abs(own[PRICED]["excess"]) < 1e-4
        assert all(record["excess"] > 0.01 for name, record in own.items() if name not in (EXACT, PRICED))


def test_shapes_of_equal_bytes():
    shapes = lightrnn.shapes_of_equal_bytes(100_000, 10_000, 200)
    assert shapes == [(44, 4), (25, 6), (14, 9), (7, 14), (3, 25)]
    for size, length in shapes:
        found = CodewordSpec.named("linear", 200, size, length).sizes(10_000).embedding
        assert abs(found - 100_000) <= 1000


def test_a_tiny_run_compares_all_codes_on_both_tables(tiny):
    result, printed, folder = tiny
    assert result["settings"]["seed"] == 2
    assert "scipy" in result["versions"]
    glove = [row for row in result["rows"] if row["table"] == "glove"]
    ptb = [row for row in result["rows"] if row["table"] == "ptb"]
    assert check_table(glove, 400)[SAME_BYTES] < 0.9
    check_table(ptb, 196)
    check_matchings(result["matchings"])
    assert all(row["short_test_perplexity"] is None for row in glove)
    trained = [row["row"] for row in ptb if row["short_test_perplexity"] is not None]
    assert sorted(trained) == sorted([FULL, *KINDS])
    assert all(row.keys() == glove[0].keys() for row in result["rows"])
    assert "above the exact matching's cost" in printed
    assert (folder / "figures" / "lightrnn.svg").stat().st_size > 1000


def test_a_second_run_keeps_what_is_finished(tiny, run_tiny):
    first, _, folder = tiny
    (folder / "work" / "lightrnn-seed2" / "compact.json").write_text('{"perplexity": 1.5, "seconds": 2}')
    run_tiny("lightrnn", "--threads", "1", "--seed", "2", folder=folder)
    again = json.loads((folder / "results" / "lightrnn.json").read_text())
    place = next(place for place, row in enumerate(first["rows"]) if (row["table"], row["row"]) == ("ptb", COMPACT))
    assert again["rows"][place].pop("short_test_perplexity") == 1.5
    assert first["rows"][place].pop("short_test_perplexity") != 1.5
    assert again["rows"] == first["rows"]
    assert again["matchings"] == first["matchings"]


def test_the_kept_result_compares_ten_thousand_words(kept, tiny):
    assert kept.keys() <= tiny[0].keys()
    assert kept["rows"][0].keys() == tiny[0]["rows"][0].keys()
    assert not kept["settings"]["tiny"]
    assert {"kdcode", "numpy", "scipy", "torch", "python"} <= kept["versions"].keys()
    assert kept["date"]
    for table in ("glove", "ptb"):
        rows = [row for row in kept["rows"] if row["table"] == table]
        error = check_table(rows, 10_000)
        assert error[SAME_BYTES] < error[SAME_SHAPE]
        assert 0 <= lightrnn.best_of(rows, COMPACT)["excess_at_most"] < 0.01
    check_matchings(kept["matchings"])
    assert {record["words"] for record in kept["matchings"]} == {900, 2500, 10_000}


def test_the_kept_language_models_are_those_of_every_kind_of_code(kept):
    perplexity = {row["row"]: row["short_test_perplexity"] for row in kept["rows"] if row["short_test_perplexity"]}
    if not perplexity:
        pytest.skip("no language model is trained yet")
    assert perplexity.keys() == {FULL, *KINDS}
    assert perplexity[COMPACT] < perplexity[RANDOM_SLOTS]
    assert perplexity[SAME_BYTES] < perplexity[COMPACT]
