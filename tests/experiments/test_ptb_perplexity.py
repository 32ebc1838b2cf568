from __future__ import annotations

import json

import pytest
from ptb_perplexity import PAPER, ROWS


@pytest.fixture(scope="module")
def tiny(run_tiny):
    folder, printed = run_tiny("ptb_perplexity", "--threads", "1", "--seed", "3")
    return folder, printed


def test_every_row_is_trained_and_written(tiny):
    folder, printed = tiny
    result = json.loads((folder / "results" / "ptb_perplexity-small.json").read_text())
    assert [row["row"] for row in result["rows"]] == list(ROWS)
    assert result["settings"]["seed"] == 3
    assert result["settings"]["recipe"]["epochs"] == result["rows"][0]["epochs"]
    assert {"kdcode", "torch", "python"} <= result["versions"].keys()
    assert all(row in printed for row in ROWS)
    assert (folder / "figures" / "ptb_perplexity-small.svg").exists()


def test_sizes_are_counted_from_the_layers(tiny):
    folder, _ = tiny
    result = json.loads((folder / "results" / "ptb_perplexity-small.json").read_text())
    numbers = {row["row"]: row["embedding_parameters"] for row in result["rows"]}
    assert numbers["conventional"] == 200 * 16
    assert numbers["linear-linear"] == 8 * 4 * 16
    assert numbers["lstm-lstm"] == 8 * 4 * 16 + 4 * 16 * 16 + 4 * 16 + 16 * 16
    for row in result["rows"][1:]:
        assert row["file_bytes"] == (folder / "work" / "small-seed3" / f"{row['row']}.kdc").stat().st_size


def test_finished_rows_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    kept = folder / "work" / "small-seed3" / "lstm-lstm.json"
    record = json.loads(kept.read_text())
    kept.write_text(json.dumps({**record, "test_perplexity": 1.5}))
    run_tiny("ptb_perplexity", "--threads", "1", "--seed", "3", "--rows", "lstm-lstm", folder=folder)
    result = json.loads((folder / "results" / "ptb_perplexity-small.json").read_text())
    assert result["rows"][-1]["test_perplexity"] == 1.5


def test_a_trial_tells_how_long_the_whole_would_take(tiny, run_tiny):
    folder, _ = tiny
    run_tiny("ptb_perplexity", "--steps", "6", "--rows", "random-lstm,conventional", "--threads", "1", folder=folder)
    result = json.loads((folder / "results" / "ptb_perplexity-small-trial.json").read_text())
    assert [row["row"] for row in result["rows"]] == ["random-lstm", "conventional"]
    assert all(row["steps"] == 6 and row["seconds_per_step"] > 0 for row in result["rows"])


def test_an_unknown_row_is_refused(run_tiny, capsys):
    with pytest.raises(SystemExit):
        run_tiny("ptb_perplexity", "--rows", "lstm-linaer")
    assert "there is no row 'lstm-linaer'" in capsys.readouterr().err


def test_the_papers_claims_are_about_these_rows():
    assert list(PAPER) == list(ROWS)


def test_the_kept_table_has_all_rows_and_shows_what_the_paper_says(committed):
    kept = committed("ptb_perplexity-small")
    rows = {row["row"]: row for row in kept["rows"] if row["seed"] == 0}
    assert set(rows) == set(ROWS)
    assert {row["epochs"] for row in rows.values()} == {13}
    test = {name: row["test_perplexity"] for name, row in rows.items()}
    full = test["conventional"]
    assert full == pytest.approx(PAPER["conventional"][0][0], rel=0.03)
    for composition in ("linear", "lstm"):
        learned = max(test[f"linear-{composition}"], test[f"lstm-{composition}"])
        assert test[f"random-{composition}"] > 1.05 * learned
        assert test[f"random-{composition}"] > 1.02 * full
        assert learned < 1.03 * full
    assert rows["linear-linear"]["embedding_parameters"] == 100_000
    assert rows["linear-linear"]["ratio"] == 0.05
    for name, row in rows.items():
        curve = kept["valid_perplexity_by_epoch"][f"{name}, seed 0"]
        assert len(curve) == 13
        assert curve[-1] == row["valid_perplexity"]
        assert row["file_bytes"] < 1_000_000 or name == "conventional"


def test_the_kept_trials_show_what_a_step_costs_and_that_the_large_model_trains(committed):
    small, large = (
        {row["row"]: row for row in committed(f"ptb_perplexity-{model}-trial")["rows"]} for model in ("small", "large")
    )
    steps = {name: row["seconds_per_step"] for name, row in small.items()}
    assert steps["random-lstm"] < 1.6 * steps["conventional"]
    assert [round(large[name]["embedding_parameters"] / 1e6, 1) for name in large] == [15.0, 0.4, 0.6]
    for row in large.values():
        assert row["last_perplexity"] < 0.7 * row["first_perplexity"]
