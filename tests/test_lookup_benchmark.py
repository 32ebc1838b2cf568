"""The benchmark of lookups: a tiny run measures everyone, and the kept result says what the pages say."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_process  # noqa: E402
from lookup import OPENED, uniform_of, zipf_of  # noqa: E402
from lookup_contenders import DIM, FULL, HOT, HOT_TABLES, PLAIN, SPECS, contenders  # noqa: E402

from kdcode import compiled  # noqa: E402

RESULTS = FOLDER / "results" / "lookup.json"
EVERYONE = {
    *(FULL, "nn.Embedding bfloat16", "int8 rows", "faiss sa_decode, product"),
    *(f"CodedEmbedding {name}{way}" for name in SPECS for way in ("", PLAIN)),
    *(f"CodedTable linear int8{way}" for way in ("", PLAIN)),
}
KEPT_ROWS = {f"CodedEmbedding {name}, {way}" for name in HOT_TABLES for way in HOT}

MOST_LINEAR = {1: 1.0, 64: 1.0, 4096: 1.3}
"""What a lookup with linear codes may take, in times of nn.Embedding, by the batch."""
MOST_PRODUCT = 1.0
MOST_PLAIN = {1: 10.0, 4096: 3.0}
"""The same without compiled code."""
MOST_MEMORY = 1.05
"""Resident memory, in sizes of the file."""
LARGE = (400_000, 1_000_000)
"""Numbers of rows that these hold for: nn.Embedding of 10,000 rows fits into the caches of a processor."""

is_measured = pytest.mark.skipif(not RESULTS.exists(), reason="benchmarks/lookup.py has not been run")


def measured_here(script, arguments, kept, threads, minutes=None):
    """As `measured_apart`, in this process: to import torch again takes longer than a tiny measurement."""
    return json.loads(printed_by(Path(script), *arguments))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lookup")
    output, figure = folder / "out.json", folder / "out.svg"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_process, "measured_apart", measured_here)
        printed = printed_by(FOLDER / "lookup.py", "--tiny", "--output", output, "--figure", figure)
    assert figure.stat().st_size > 1000
    return json.loads(output.read_text()), printed


@pytest.mark.slow
def test_a_tiny_run_looks_rows_up_in_every_way(tiny):
    result, printed = tiny
    rows = [row for row in result["rows"] if row["part"] == "lookup"]
    for ids, batch in itertools.product(("uniform", "zipf"), (1, 64)):
        some = [row for row in rows if (row["ids"], row["batch"]) == (ids, batch)]
        assert {row["contender"] for row in some} == (EVERYONE | KEPT_ROWS if ids == "zipf" else EVERYONE)
        assert all(0 < row["ns_low"] <= row["ns"] <= row["ns_high"] and row["ratio"] > 0 for row in some)
        assert [row["ratio"] for row in some if row["contender"] == FULL] == [1]
    assert all(f"| 2,000 | zipf | 64 | {name} |" in printed for name in EVERYONE | KEPT_ROWS)


@pytest.mark.slow
def test_a_tiny_run_looks_symbols_up_and_measures_memory(tiny):
    rows = tiny[0]["rows"]
    symbols = {row["contender"]: row["us"] for row in rows if row["part"] == "symbols"}
    assert len(symbols) == 2
    assert min(symbols.values()) > 0
    memory = [row for row in rows if row["part"] == "memory"]
    assert [row["contender"] for row in memory] == list(OPENED)
    assert memory[-1]["bytes"] == 2000 * DIM * 4
    assert all(row["bytes"] > 2000 * 16 and "resident_bytes" in row for row in memory)


def test_everyone_gives_one_vector_for_each_id():
    ids = np.array([7, 3, 7])
    for name, contender in contenders(50).items():
        with compiled.using(contender.setting):
            many, one = (contender.call(contender.given(each)) for each in (ids, ids[:1]))
        assert many.shape == (3, DIM), name
        assert one.reshape(-1).shape == (DIM,)
        assert np.array_equal(np.asarray(many[0].tolist()), np.asarray(many[2].tolist()))


def test_frequent_ids_follow_zipfs_law_and_lie_anywhere():
    drawn = zipf_of(1000)((100, 1000))
    counts = np.bincount(drawn.reshape(-1), minlength=1000)
    ranked = np.sort(counts)[::-1] / counts.sum()
    assert ranked[0] == pytest.approx(1 / np.sum(1 / np.arange(1, 1001)), rel=0.05)
    assert ranked[0] / ranked[9] == pytest.approx(10, rel=0.15)
    assert counts[:10].sum() < counts.sum() / 3
    even = np.bincount(uniform_of(10)((100, 100)).reshape(-1), minlength=10)
    assert even.min() > 800


@pytest.fixture
def kept():
    return json.loads(RESULTS.read_text())["rows"]


@pytest.fixture
def ratios(kept):
    return {
        (row["contender"], row["rows"], row["ids"], row["batch"]): row["ratio"]
        for row in kept
        if row["part"] == "lookup"
    }


@is_measured
def test_everything_is_measured(ratios, tiny, kept):
    uniform = set(itertools.product(EVERYONE, (10_000, *LARGE), ("uniform",), (1, 64, 4096, 65536)))
    zipf = set(itertools.product(EVERYONE | KEPT_ROWS, (10_000, *LARGE), ("zipf",), (1, 64, 4096, 65536)))
    assert ratios.keys() == uniform | zipf
    for part in ("lookup", "symbols", "memory"):
        first, again = (next(row for row in rows if row["part"] == part) for rows in (kept, tiny[0]["rows"]))
        assert first.keys() == again.keys()


@is_measured
@pytest.mark.parametrize("ids", ["uniform", "zipf"])
@pytest.mark.parametrize("rows", LARGE)
def test_rows_are_looked_up_about_as_quickly_as_in_a_full_table(ratios, rows, ids):
    for batch, most in MOST_LINEAR.items():
        assert ratios["CodedEmbedding linear int8", rows, ids, batch] <= most, batch
    for batch in (1, 64, 4096, 65536):
        assert ratios["CodedEmbedding product int8", rows, ids, batch] <= MOST_PRODUCT, batch


@is_measured
@pytest.mark.parametrize("ids", ["uniform", "zipf"])
@pytest.mark.parametrize("rows", LARGE)
def test_without_compiled_code_lookups_stay_quick(ratios, rows, ids):
    for (batch, most), name in itertools.product(MOST_PLAIN.items(), ("linear int8", "product int8")):
        assert ratios[f"CodedEmbedding {name}{PLAIN}", rows, ids, batch] <= most, (name, batch)


@is_measured
def test_a_process_takes_the_memory_of_the_file(kept):
    memory = {row["contender"]: row for row in kept if row["part"] == "memory"}
    for name in ("kdcode.load", "CodedEmbedding"):
        assert memory[name]["rows"] == 1_000_000
        assert memory[name]["ratio"] <= MOST_MEMORY, name
