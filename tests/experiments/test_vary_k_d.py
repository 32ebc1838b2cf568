from __future__ import annotations

import json


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
    kept.write_text('{"perplexity": 1.5}')
    run_tiny("vary_k_d", "--threads", "1", folder=folder)
    again = json.loads((folder / "results" / "vary_k_d.json").read_text())
    assert again["rows"][-1]["short_test_perplexity"] == 1.5
