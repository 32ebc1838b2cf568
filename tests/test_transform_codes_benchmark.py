"""The benchmark of transform codes runs, and measures what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

from kdcode import _core

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(FOLDER))


@pytest.mark.slow
def test_a_small_run_measures_every_size(tmp_path):
    printed_by(FOLDER / "transform_codes.py", "--output", tmp_path / "r.json", "--sizes", "10x", "--efforts", "fast")
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["settings"]["isa"] == _core.isa()
    [row] = result["rows"]
    assert (row["size"], row["effort"], row["composition"]) == ("10x", "fast", "transform")
    assert 0 < row["unseen_error"] < 2 * row["seen_error"] < 0.1
    assert 0 < row["microseconds_per_row_low"] <= row["microseconds_per_row"]
    assert row["coded_per_second"] > 0


def test_what_is_lost_is_relative_to_the_mean():
    from transform_codes import lost

    vectors = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    mean = vectors.mean(axis=0)
    assert lost(vectors, vectors, mean) == 0
    assert lost(vectors, np.tile(mean, (2, 1)), mean) == pytest.approx(1)
