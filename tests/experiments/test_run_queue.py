"""The queue: every run once, those with a result skipped, folders left out of what is told."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

import provenance
import pytest
import run_queue
from ptb_perplexity import ROWS
from run_queue import Job

WHOLE = {
    **{"commit": "0" * 40, "seed": 0, "command": "python experiments/x.py", "versions": {}, "threads": 1},
    **{"processor": "x", "settings": {}, "seconds": 3.0},
}


def test_every_run_stands_once_and_the_first_are_those_that_matter_most():
    names = [job.result for job in run_queue.jobs()]
    assert len(names) == len(set(names))
    for seed in (0, 1, 2):
        assert {f"runs/ptb_perplexity-small/{row}-seed{seed}" for row in ROWS} <= set(names)
        assert f"runs/vary_k_d/full-seed{seed}" in names
    assert names[:2] == [
        "runs/ptb_perplexity-small/conventional-seed0",
        "runs/ptb_perplexity-small/algorithm-1-linear-linear-seed0",
    ]
    assert all((run_queue.HERE / f"{job.script}.py").exists() for job in run_queue.jobs())


def test_a_run_is_done_when_its_result_says_where_it_is_from(monkeypatch, tmp_path):
    monkeypatch.setattr(run_queue, "HERE", tmp_path)
    job = Job("runs/x/row-seed0", "x")
    assert not job.is_done
    job.path.parent.mkdir(parents=True)
    job.path.write_text(json.dumps(WHOLE))
    assert job.is_done
    for key in provenance.KEYS:
        job.path.write_text(json.dumps({name: value for name, value in WHOLE.items() if name != key}))
        assert not job.is_done
    job.path.write_text(json.dumps(WHOLE | {"commit": f"{'0' * 40}-changed"}))
    assert not job.is_done
    job.path.write_text(json.dumps(WHOLE | {"seconds_of": {"training": 1.0, "evaluation": 4.0}}))
    assert not job.is_done


def test_runs_without_a_result_are_run_one_after_another_and_failures_are_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(run_queue, "HERE", tmp_path)
    made = tmp_path / "results" / "made.json"
    script = f"import pathlib, sys; pathlib.Path({str(made)!r}).write_text({json.dumps(WHOLE)!r}); print(sys.argv[1:])"
    (tmp_path / "good.py").write_text(script)
    (tmp_path / "bad.py").write_text("raise SystemExit('no')")
    made.parent.mkdir()
    monkeypatch.setattr(run_queue, "jobs", lambda: iter([Job("failing", "bad"), Job("made", "good", "ptb", seed=2)]))
    monkeypatch.setattr(sys, "argv", ["run_queue.py", "--data", str(tmp_path), "--work", str(tmp_path / "work")])
    with pytest.raises(SystemExit, match="no result: failing"):
        run_queue.main()
    assert made.exists()
    printed = capsys.readouterr().out
    assert "FAILED   failing" in printed
    assert "ended   made" in printed
    assert "'--seed', '2'" in (tmp_path / "work" / "logs" / "made.log").read_text()
    monkeypatch.setattr(sys, "argv", ["run_queue.py", "--list"])
    run_queue.main()
    assert capsys.readouterr().out.split("\n")[:2] == ["      failing", "done  made"]


def test_a_command_is_told_without_folders():
    words = ["/home/me/experiments/x.py", "--data", "/home/me/ptb", "--seed", "3", "--rows", "a,b"]
    values = vars(Namespace(data=Path("/home/me/ptb"), seed=3, rows="a,b", output=Path("/home/me")))
    assert provenance.command(words, values) == "python experiments/x.py --data FOLDER --seed 3 --rows a,b"
