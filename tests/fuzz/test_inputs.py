"""A few seconds of the fuzzer of inputs; `make fuzz` runs it at full count."""

import inputs
import numpy as np
import pytest
from case_worker import CaseLimits, make_case, run_one
from harness import run_cases
from input_samples import SAMPLES

import kdcode
from kdcode.io import FORMATS
from kdcode.table import VectorTable


def test_damaged_files_of_every_format_are_refused_or_read_as_a_whole():
    tally = run_cases("inputs", inputs.check, count=3000, seed=2017, processes=1)
    assert tally.failures == {}, tally.first
    assert {f"{name}: refused" for name in FORMATS} | {f"{name}: read" for name in FORMATS} <= tally.outcomes.keys()
    assert tally.outcomes["good"] > 50


def test_every_format_has_samples():
    assert {sample.format for sample in SAMPLES} == FORMATS.keys()
    assert {sample.suffix for sample in SAMPLES} >= {suffix for row in FORMATS.values() for suffix in row.suffixes} - {
        ".pth"
    }


def kinds_of(folder, numbers=range(60)):
    kinds = set()
    for number in numbers:
        case = make_case(2017, number, folder / str(number))
        case.folder.mkdir()
        kinds.add(run_one(inputs.check, case, CaseLimits()).kind)
    return kinds


@pytest.mark.parametrize("error", [ValueError, KeyError, RecursionError])
def test_it_would_see_other_errors(tmp_path, monkeypatch, error):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(kdcode, "read", failing)
    assert f"uncaught {error.__name__}" in kinds_of(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda table, options: table.head(len(table) - 1) if len(table) > 1 else table,
        lambda table, options: VectorTable(table.symbols, np.asarray(table.matrix, dtype=np.float32) * 2),
        lambda table, options: VectorTable(None, table.matrix),
        lambda table, options: table if options.get("limit") is None else VectorTable(None, -table.matrix),
    ],
)
def test_it_would_see_wrong_tables(tmp_path, monkeypatch, wrong):
    read = kdcode.read
    monkeypatch.setattr(kdcode, "read", lambda path, **options: wrong(read(path, **options), options))
    assert "wrong" in kinds_of(tmp_path, range(150))
