"""The harness of the fuzzers notices whatever goes wrong in a case, and goes on."""

import json
import os
import subprocess
import sys

import harness
import harness_cases
import pytest
from case_worker import make_case, run_one
from harness import MIB, CaseLimits, Tally, main, run_cases

SMALL = CaseLimits(seconds=0.5, memory=40 * MIB)


@pytest.fixture(scope="module")
def gone_wrong():
    return run_cases("all_kinds", harness_cases.all_kinds, count=30, processes=2, limits=SMALL)


@pytest.mark.parametrize(
    ("kind", "cases"),
    {
        "hang": [1],
        "crash": [2, 7],
        "uncaught KeyError": [3],
        "memory": [4, 5],
        "wrong": [6],
    }.items(),
)
def test_each_kind_of_failure_is_found_and_its_case_named(gone_wrong, kind, cases):
    assert gone_wrong.failures[kind] == len(cases)
    assert sorted(one["case"] for one in gone_wrong.first[kind]) == cases


def test_the_other_cases_are_run_all_the_same(gone_wrong):
    assert gone_wrong.done == gone_wrong.below == 30
    assert gone_wrong.failed == 7
    assert gone_wrong.outcomes.keys() == {"refused", "same"}
    assert sum(gone_wrong.outcomes.values()) == 23
    assert gone_wrong.slowest[0] == 1
    assert gone_wrong.largest[0] == 4
    assert 59 * MIB < gone_wrong.largest[1] < 80 * MIB  # Linux counts a few pages late


def test_what_is_said_of_a_failure_names_no_folder_of_this_machine(gone_wrong):
    said = json.dumps(gone_wrong.first)
    assert "kdcode-fuzz" not in said
    assert "FOLDER" in said
    assert "harness_cases.py:" in said
    assert "SIGSEGV" in said
    assert "exit status 3" in said


def test_a_case_that_waits_is_ended_too():
    limits = CaseLimits(seconds=5, wall_seconds=5)
    tally = run_cases("waits", harness_cases.waits, count=4, processes=1, limits=limits)
    assert tally.failures == {"hang": 1}
    assert tally.first["hang"][0] == {"case": 0, "detail": "no answer within 5 s"}
    assert sum(tally.outcomes.values()) == 3


def test_a_seed_and_a_number_give_the_same_case_with_any_number_of_processes(tmp_path):
    counts = [
        run_cases("harmless", harness_cases.harmless, count=40, seed=seed, processes=processes).outcomes
        for seed, processes in [(1, 1), (1, 2)]
    ]
    alone = [run_one(harness_cases.harmless, make_case(1, number, tmp_path), SMALL).kind for number in range(40)]
    assert counts[0] == counts[1] == {kind: alone.count(kind) for kind in set(alone)}
    assert [make_case(1, 5, tmp_path).random.random(), make_case(2, 5, tmp_path).random.random()] != [
        make_case(1, 6, tmp_path).random.random()
    ] * 2


SCRIPT = """
import sys
from pathlib import Path
import harness, harness_cases
harness.WORK = Path(sys.argv.pop(1))
if __name__ == "__main__":
    raise SystemExit(harness.main("stopped", harness_cases.stops_at_twenty, count=40))
"""


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path):
    script, output = tmp_path / "stopped.py", tmp_path / "stopped.json"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "work"), "--processes", "1", "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    stopped = subprocess.run(
        command, env={**environment, "KDCODE_TEST_STOP": "1"}, capture_output=True, text=True, check=False
    )
    assert stopped.returncode == 130, stopped.stderr
    assert not output.exists()
    kept = Tally.load(tmp_path / "work" / "stopped-0.json")
    assert kept.done == kept.below == 20
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert not list((tmp_path / "work").iterdir())
    whole = run_cases("stopped", harness_cases.stops_at_twenty, count=40, processes=1)
    assert {row["outcome"]: row["cases"] for row in json.loads(output.read_text())["rows"]} == whole.outcomes


def test_results_hold_counts_failures_and_versions_and_nothing_of_the_machine(tmp_path, gone_wrong):
    path = tmp_path / "all_kinds.json"
    harness.write_results(path, gone_wrong, 7, SMALL, ("numpy",))
    result = json.loads(path.read_text())
    assert result["settings"] | {"memory_is": ""} == {
        "count": 30,
        "seed": 7,
        "seconds": 0.5,
        "memory_mib": 40,
        "memory_is": "",
    }
    assert result["versions"].keys() == {"kdcode", "python", "numpy"}
    assert {"outcome": "wrong", "cases": 1, "failed": True} in result["rows"]
    assert sum(row["cases"] for row in result["rows"]) == 30
    assert result["slowest"]["case"] == 1
    assert os.uname().nodename not in path.read_text()


def test_one_case_again(tmp_path, monkeypatch, capsys):
    def run(number):
        monkeypatch.setattr(sys, "argv", ["fuzz", "--only", number])
        return main("all_kinds", harness_cases.all_kinds, count=30)

    monkeypatch.setattr(harness, "mkdtemp", lambda prefix: str(tmp_path))
    assert run("6") == 1
    assert "wrong: WrongError: a damaged file was accepted" in capsys.readouterr().out
    assert run("8") == 0
    assert (tmp_path / "file").exists()
