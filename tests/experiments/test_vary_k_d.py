from __future__ import annotations

import json

import pytest
import vary_k_d


def test_a_tiny_run_measures_every_point_once(run_tiny):
    folder, printed = run_tiny("vary_k_d", "--threads", "1")
    result = json.loads((folder / "results" / "vary_k_d.json").read_text())
    points = [(row["codebook_size"], row["code_length"]) for row in result["rows"]]
    assert points == [(50, 2), (50, 10), (4, 10)]
    assert all(row["short_test_perplexity"] > 1 for row in result["rows"])
    by_point = dict(zip(points, result["rows"], strict=True))
    assert by_point[50, 10]["relative_error"] < by_point[50, 2]["relative_error"]
    assert by_point[50, 10]["relative_error"] < by_point[4, 10]["relative_error"]
    assert by_point[4, 10]["log10_codes_per_symbol"] == 3.72  # 4^10 codes for 200 words
    assert "K=50   D=2" in printed
    kept = folder / "work" / "vary_k_d-seed0" / "4x10.json"
    kept.write_text('{"perplexity": 1.5, "seconds": 2}')
    run_tiny("vary_k_d", "--threads", "1", folder=folder)
    again = json.loads((folder / "results" / "vary_k_d.json").read_text())
    assert again["rows"][-1]["short_test_perplexity"] == 1.5


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
