from __future__ import annotations

import json

import pytest
from learned_codes import FIXED, ROWS


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("learned_codes", "--seed", "3")


def test_every_row_is_trained_and_written(tiny):
    folder, printed = tiny
    result = json.loads((folder / "results" / "learned_codes.json").read_text())
    assert [row["row"] for row in result["rows"]] == list(ROWS)
    assert all(row in printed for row in ROWS)
    assert result["settings"]["seed"] == 3
    full, dropped, *coded = result["rows"]
    assert full["bytes"] == dropped["bytes"] == 4 * 200 * 16
    assert full["valid_perplexity"] != dropped["valid_perplexity"]
    for row in coded:
        assert row["bytes"] == coded[0]["bytes"]  # at the same bytes
        assert row["times_smaller"] == pytest.approx(full["bytes"] / row["bytes"], abs=0.1)
        assert row["file_bytes"] == (folder / "work" / "seed3" / f"{row['row']}.kdc").stat().st_size
        # The frozen layer, with rounded codewords, is nearly as good as the one that was trained.
        assert row["valid_perplexity"] == pytest.approx(row["valid_by_epoch"][-1], rel=0.02)
        assert (row["last_usage"] is None) == (row["row"] in FIXED)


def test_finished_rows_are_not_run_again(tiny, run_tiny):
    folder, _ = tiny
    kept = folder / "work" / "seed3" / "learned.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "test_perplexity": 1.5}))
    run_tiny("learned_codes", "--seed", "3", "--rows", "learned", folder=folder)
    result = json.loads((folder / "results" / "learned_codes.json").read_text())
    assert [row["test_perplexity"] for row in result["rows"] if row["row"] == "learned"] == [1.5]


def test_guidance_needs_the_conventional_row(run_tiny, tmp_path):
    with pytest.raises(SystemExit, match="needs the conventional model"):
        run_tiny("learned_codes", "--seed", "4", "--rows", "guided", folder=tmp_path)


def test_an_unknown_row_is_refused(run_tiny, capsys):
    with pytest.raises(SystemExit):
        run_tiny("learned_codes", "--rows", "learnt")
    assert "there is no row 'learnt'" in capsys.readouterr().err
