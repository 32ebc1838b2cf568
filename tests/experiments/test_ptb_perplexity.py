from __future__ import annotations

import json

import pytest
from provenance import KEYS
from ptb_perplexity import LEARNERS, ROWS
from table_1_rows import BESIDE, PAPER


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("ptb_perplexity", "--seed", "3")


def result_of(folder, row):
    path = folder / "results" / "runs" / "ptb_perplexity-small" / f"{row}-seed3.json"
    return json.loads(path.read_text())


def test_every_row_is_trained_and_has_a_result_that_says_where_it_is_from(tiny):
    folder, printed = tiny
    for row in ROWS:
        result = result_of(folder, row)
        assert set(KEYS) <= result.keys()
        assert result["seed"] == result["settings"]["seed"] == result["rows"][0]["seed"] == 3
        assert result["threads"] == 1
        assert result["seconds"] == pytest.approx(sum(result["seconds_of"].values()), abs=0.1)
        assert str(folder) not in json.dumps(result)
        (record,) = result["rows"]
        assert record["epochs"] == result["settings"]["recipe"]["epochs"] == len(record["valid_by_epoch"])
        assert record["train_perplexity"] > 1
        assert row in printed


def test_sizes_are_counted_from_the_layers(tiny):
    folder, _ = tiny
    numbers = {row: result_of(folder, row)["rows"][0]["embedding_parameters"] for row in ROWS}
    assert numbers["conventional"] == 200 * 16
    assert numbers["linear-linear"] == numbers["algorithm-1-linear-linear"] == 8 * 4 * 16
    assert numbers["lstm-lstm"] == 8 * 4 * 16 + 4 * 16 * 16 + 4 * 16 + 16 * 16
    assert numbers["linear-shared-lstm"] == 8 * 16 + 8 * 16 * 16 + 4 * 16 + 16 * 16
    for row in ROWS:
        record = result_of(folder, row)["rows"][0]
        file = folder / "work" / "small-seed3" / f"{row}.kdc"
        assert record["file_bytes"] == (file.stat().st_size if file.exists() else record["file_bytes"])


def test_codes_of_algorithm_1_are_other_codes(tiny):
    folder, _ = tiny
    errors = {row: result_of(folder, row)["rows"][0]["code_error"] for row in ROWS}
    assert errors["algorithm-1-linear-linear"] > errors["linear-linear"]
    assert errors["conventional"] is None
    assert errors["random-linear"] is None
    assert result_of(folder, "algorithm-1-lstm-lstm")["settings"]["learner"] == LEARNERS["algorithm-1-lstm"]


def test_finished_rows_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    path = folder / "results" / "runs" / "ptb_perplexity-small" / "lstm-lstm-seed3.json"
    before = path.read_text()
    path.write_text(before.replace('"row": "lstm-lstm"', '"row": "kept"'))
    run_tiny("ptb_perplexity", "--seed", "3", "--rows", "lstm-lstm", folder=folder)
    assert '"row": "kept"' in path.read_text()
    path.write_text(before)


def test_a_lost_work_folder_is_made_again(tiny, run_tiny, tmp_path):
    folder, _ = tiny
    work = ("--work", str(tmp_path / "work"))
    again, _ = run_tiny("ptb_perplexity", "--seed", "3", "--rows", "linear-linear", *work, folder=tmp_path)
    assert (
        result_of(again, "linear-linear")["rows"][0]["code_error"]
        == result_of(folder, "linear-linear")["rows"][0]["code_error"]
    )


def test_a_trial_tells_how_long_the_whole_would_take(tiny, run_tiny):
    folder, _ = tiny
    run_tiny("ptb_perplexity", "--steps", "6", "--rows", "random-lstm,conventional", folder=folder)
    result = json.loads((folder / "results" / "ptb_perplexity-small-trial.json").read_text())
    assert [row["row"] for row in result["rows"]] == ["random-lstm", "conventional"]
    assert all(row["steps"] == 6 and row["seconds_per_step"] > 0 for row in result["rows"])


def test_an_unknown_row_is_refused(run_tiny, capsys):
    with pytest.raises(SystemExit):
        run_tiny("ptb_perplexity", "--rows", "lstm-linaer")
    assert "there is no row 'lstm-linaer'" in capsys.readouterr().err


def test_the_papers_claims_are_about_these_rows():
    assert [*PAPER, *BESIDE] == list(ROWS)
    assert set(BESIDE.values()) <= set(PAPER)


def test_the_kept_trials_show_what_a_step_costs_and_that_the_large_model_trains(committed):
    small, large = (
        {row["row"]: row for row in committed(f"ptb_perplexity-{model}-trial")["rows"]} for model in ("small", "large")
    )
    steps = {name: row["seconds_per_step"] for name, row in small.items()}
    assert steps["random-lstm"] < 1.6 * steps["conventional"]
    assert [round(large[name]["embedding_parameters"] / 1e6, 1) for name in large] == [15.0, 0.4, 0.6]
    for row in large.values():
        assert row["last_perplexity"] < 0.7 * row["first_perplexity"]
