"""Results of the paper's experiments say where they are from, and `make docs` refuses those that do not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
WHOLE = {
    **{"commit": "0" * 40, "seed": 0, "command": "python experiments/x.py", "versions": {}, "threads": 1},
    **{"processor": "x", "settings": {}, "seconds": 3.0},
}


@pytest.fixture
def paper_results(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import paper_results

    return paper_results


def test_all_results_do_but_those_that_are_older(paper_results):
    assert list(paper_results.unbacked()) == []
    results = {path.stem for path in (paper_results.EXPERIMENTS / "results").glob("*.json")}
    assert results >= paper_results.BEFORE_PROVENANCE


@pytest.mark.parametrize("key", list(WHOLE))
def test_a_result_without_a_key_is_told(paper_results, tmp_path, key):
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    (folder / "good-seed0.json").write_text(json.dumps(WHOLE))
    (folder / "bad-seed0.json").write_text(json.dumps({name: value for name, value in WHOLE.items() if name != key}))
    assert list(paper_results.unbacked(tmp_path)) == [f"runs/x/bad-seed0.json: no {key}"]


def test_make_docs_stops(tmp_path):
    for folder in ("docs", "experiments", "benchmarks"):
        shutil.copytree(DOCS.parent / folder, tmp_path / folder, ignore=shutil.ignore_patterns("work", "__pycache__"))
    (tmp_path / "experiments" / "results" / "new.json").write_text(json.dumps({"seed": 0, "rows": []}))
    done = subprocess.run(
        [sys.executable, tmp_path / "docs" / "make_tables.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "new.json: no commit, no command" in done.stderr
