"""A few kills of `kdcode compress`; `make fuzz` kills it at every call that touches the disk."""

import subprocess
import sys
from pathlib import Path

import kills
import pytest
from harness import run_cases

FUZZ = Path(kills.__file__).parent


@pytest.mark.parametrize("count", [3, pytest.param(kills.COUNT, marks=pytest.mark.slow)])
def test_a_killed_run_can_be_repeated_as_if_nothing_had_happened(count):
    tally = run_cases("kills", kills.check, count=count, seed=2017, processes=1, limits=kills.LIMITS)
    assert tally.failures == {}, tally.first
    assert tally.done == count
    # A run may be done before its moment comes: the machine was busier when it was timed.
    at_random = [outcome for outcome in tally.outcomes if "random moment" in outcome or "ended before" in outcome]
    assert sum(tally.outcomes[outcome] for outcome in at_random) >= count // 3
    assert set(tally.outcomes) - set(at_random)  # and some at a call


FAULTS = """
import os, sys, time
from contextlib import contextmanager
from pathlib import Path
import kills
from case_worker import make_case, run_one
from kdcode import file_locks, storage

folder = Path(sys.argv[1])
save, removed = storage.save, file_locks._remove_if_left_behind

def stamped(coded, path):
    coded.provenance["at"] = time.time()
    return save(coded, path)

@contextmanager
def by_halves(path):
    path.write_bytes(b"half")
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    yield path

faults = {
    "left behind": lambda: setattr(file_locks, "_remove_if_left_behind", lambda path: None),
    "other bytes": lambda: setattr(storage, "save", stamped),
    "neither old nor new": lambda: setattr(storage, "replacing", by_halves),
}
print(len(kills.places()), flush=True)
for number, (name, break_it) in enumerate(faults.items()):
    own = folder / str(number)
    own.mkdir()
    break_it()
    last = len(kills.undisturbed("replacing").calls) - 1
    wanted = [
        kills.Place("learning", 0, "fsync", "before"),
        kills.Place("replacing", last - 4, "fsync", "after"),
        kills.Place("replacing", last - 3, "fsync", "after"),
        kills.Place("replacing", last - 2, "fsync", "after"),
    ]
    for case, place in enumerate(wanted):
        kills.place_of = lambda number: wanted[number]
        (own / str(case)).mkdir()
        result = run_one(kills.check, make_case(0, case, own / str(case)), kills.LIMITS)
        if result.kind == "wrong" and name in result.detail:
            print("seen:", name, flush=True)
            break
    storage.save, file_locks._remove_if_left_behind = save, removed
"""
"""Breaks, one after another, what keeps a killed run from doing harm; says what the fuzzer makes of it."""


@pytest.mark.slow
def test_the_fuzzer_would_see_what_it_is_for(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, tmp_path], cwd=FUZZ, capture_output=True, text=True, check=False
    )
    places, *seen = done.stdout.splitlines()
    assert seen == ["seen: left behind", "seen: other bytes", "seen: neither old nor new"], done.stderr
    assert int(places) <= 2 * kills.COUNT // 3  # `make fuzz` tries them all
