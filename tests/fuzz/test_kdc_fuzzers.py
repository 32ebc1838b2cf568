"""A few seconds of the fuzzers of .kdc files; `make fuzz` runs them at full count."""

import bit_flips
import kdc_files
import pytest
from case_worker import CaseLimits, make_case, run_one
from harness import run_cases

import kdcode


def run(name, check, count):
    tally = run_cases(name, check, count=count, seed=2017, processes=1)
    assert tally.failures == {}, tally.first
    assert tally.done == count
    return tally.outcomes


def test_every_flipped_bit_is_found():
    found = run("bit_flips", bit_flips.check, 1500)
    assert {
        "found in length",
        "found in header",
        "found in codes",
        "found in weights",
        "found in row_classes",
        "found in row_starts",
        "found in symbols.blocks",
        "found in digests",
    } <= set(found)


def test_damaged_and_hostile_files_are_refused_or_read_right():
    outcomes = run("kdc_files", kdc_files.check, 700)
    assert outcomes["raw: refused"] > 250
    assert outcomes["lawful: refused"] > 150
    assert outcomes["lawful: agrees"] > 70  # the comparison with the independent reader is made


def kinds_of(check, numbers, folder):
    return {run_one(check, make_case(2017, number, folder), CaseLimits()).kind for number in numbers}


def test_the_fuzzers_would_see_damage_that_is_not_noticed(tmp_path, monkeypatch):
    load = kdcode.load
    monkeypatch.setattr(kdcode, "verify", lambda path: load(path, check="none"))
    assert "wrong" in kinds_of(bit_flips.check, range(30), tmp_path)
    monkeypatch.setattr(kdcode, "load", lambda path, check, mmap: load(path, check="none", mmap=mmap))
    assert "wrong" in kinds_of(kdc_files.check, range(200), tmp_path)


@pytest.mark.parametrize("error", [ValueError, MemoryError])
def test_the_fuzzers_would_see_other_errors(tmp_path, monkeypatch, error):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(kdcode, "load", failing)
    monkeypatch.setattr(kdcode, "verify", failing)
    expected = {"memory"} if error is MemoryError else {"uncaught ValueError"}
    assert kinds_of(bit_flips.check, range(5), tmp_path) == expected
    assert kinds_of(kdc_files.check, range(5), tmp_path) == expected
