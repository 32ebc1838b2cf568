from __future__ import annotations

import json

import pytest
import vary_k_d


def result_of(folder, point):
    return json.loads((folder / "results" / "runs" / "vary_k_d" / f"{point}-seed0.json").read_text())


def test_a_tiny_run_measures_every_point_once(run_tiny):
    folder, printed = run_tiny("vary_k_d")
    rows = {point: result_of(folder, point)["rows"][0] for point in ("full", "50x2", "50x10", "4x10")}
    assert all(row["short_test_perplexity"] > 1 and row["short_train_perplexity"] > 1 for row in rows.values())
    assert rows["50x10"]["relative_error"] < rows["50x2"]["relative_error"]
    assert rows["50x10"]["relative_error"] < rows["4x10"]["relative_error"]
    assert rows["4x10"]["log10_codes_per_symbol"] == 3.72  # 4^10 codes for 200 words
    assert rows["full"]["embedding_parameters"] == 200 * 16
    assert "row 50x2" in printed
    path = folder / "results" / "runs" / "vary_k_d" / "4x10-seed0.json"
    path.write_text("{}")
    run_tiny("vary_k_d", folder=folder)
    assert path.read_text() == "{}"


@pytest.mark.parametrize(
    ("moving", "fixed", "value"), [("code_length", "codebook_size", 50), ("codebook_size", "code_length", 10)]
)
def test_the_kept_sweeps_fall_with_the_size_of_codes(committed, moving, fixed, value):
    kept = committed("vary_k_d")
    rows = sorted((row for row in kept["rows"] if row[fixed] == value), key=lambda row: row[moving])
    assert [row[moving] for row in rows] == list(vary_k_d.LENGTHS if moving == "code_length" else vary_k_d.SIZES)
    errors = [row["relative_error"] for row in rows]
    assert errors == sorted(errors, reverse=True)
    measured = [row["short_test_perplexity"] for row in rows if row["short_test_perplexity"] is not None]
    assert len(measured) >= 5
    assert measured[0] == max(measured)
    assert measured[0] > 1.02 * measured[-1]  # small K or D hurts, even where there are far more codes than words
    assert rows[1]["log10_codes_per_symbol"] > 1
