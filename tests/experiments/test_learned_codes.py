from __future__ import annotations

import json

import pytest
from learned_codes import FIXED, ROWS


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("learned_codes", "--seed", "3")


def result_of(folder, row):
    return json.loads((folder / "results" / "runs" / "learned_codes" / f"{row}-seed3.json").read_text())


def test_every_row_is_trained_and_written(tiny):
    folder, printed = tiny
    results = [result_of(folder, row) for row in ROWS]
    assert all(row in printed for row in ROWS)
    for result in results:
        assert result["seed"] == 3
        assert result["seconds"] == pytest.approx(sum(result["seconds_of"].values()), abs=0.1)
    full, dropped, *coded = [result["rows"][0] for result in results]
    assert full["bytes"] == dropped["bytes"] == 4 * 200 * 16
    assert full["valid_perplexity"] != dropped["valid_perplexity"]
    for row in coded:
        assert row["bytes"] == coded[0]["bytes"]  # at the same bytes
        assert row["times_smaller"] == pytest.approx(full["bytes"] / row["bytes"], abs=0.1)
        file = folder / "work" / "learned_codes-seed3" / f"{row['row']}.kdc"
        assert row["file_bytes"] == file.stat().st_size
        # The frozen layer, with rounded codewords, is nearly as good as the one that was trained.
        assert row["valid_perplexity"] == pytest.approx(row["valid_by_epoch"][-1], rel=0.02)
        assert row["train_perplexity"] > 1
        assert (row["last_usage"] is None) == (row["row"] in FIXED)


def test_finished_rows_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    path = folder / "results" / "runs" / "learned_codes" / "learned-seed3.json"
    before = path.read_text()
    path.write_text("{}")
    run_tiny("learned_codes", "--seed", "3", "--rows", "learned", folder=folder)
    assert path.read_text() == "{}"
    path.write_text(before)


def test_an_unknown_row_is_refused(run_tiny, capsys):
    with pytest.raises(SystemExit):
        run_tiny("learned_codes", "--rows", "learnt")
    assert "there is no row 'learnt'" in capsys.readouterr().err
