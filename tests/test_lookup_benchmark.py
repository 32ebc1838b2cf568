"""The benchmark of lookups: a tiny run measures everyone, and the kept result says what the pages say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import printed_by

from kdcode import _core

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_process  # noqa: E402
from lookup import OPENED, WHOLE  # noqa: E402
from lookup_contenders import CODEWORDS, FULL, TABLE, contenders  # noqa: E402
from made_tables import SIZES, save_chosen  # noqa: E402

RESULTS = FOLDER / "results" / "lookup.json"
EVERYONE = {
    *(FULL, "nn.Embedding bfloat16", "int8 rows", "faiss, product"),
    *SIZES,
    *(f"{TABLE} {size}" for size in SIZES),
    *CODEWORDS,
}

MOST = {
    "20x": {1: 2.0, 32: 2.5, 512: 4.0, 4096: 4.0, 65536: 5.0},
    "linear": {1: 1.2, 4096: 1.4},
    "product": {1: 1.2, 4096: 1.0},
}
"""What a lookup in a large table may take, in times of nn.Embedding, by the batch."""
MOST_MEMORY = 1.05
"""Resident memory, in sizes of the file."""

is_measured = pytest.mark.skipif(not RESULTS.exists(), reason="benchmarks/lookup.py has not been run")


def measured_here(script, arguments, kept, threads, minutes=None, isa=""):
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
def test_a_tiny_run_measures_everyone(tiny):
    result, printed = tiny
    rows = [row for row in result["rows"] if row["part"] == "lookup"]
    for batch in (1, 32):
        some = [row for row in rows if (row["rows"], row["batch"]) == (2000, batch)]
        assert {row["contender"] for row in some} == EVERYONE
        assert all(0 < row["ns_low"] <= row["ns"] <= row["ns_high"] and row["ns_cpu"] > 0 for row in some)
        assert {row["ratio"] for row in some if row["contender"] == FULL} == {1}
    assert all(f"| {_core.isa()} | 2,000 x 20 | 32 | {name} |" in printed for name in EVERYONE)
    symbols = {row["contender"]: row["us"] for row in result["rows"] if row["part"] == "symbols"}
    assert symbols.keys() == {*SIZES, "linear"}
    assert min(symbols.values()) > 0
    memory = [row for row in result["rows"] if row["part"] == "memory"]
    assert [row["contender"] for row in memory] == list(OPENED)
    assert memory[-1]["bytes"] == 2000 * 20 * 4


def test_another_process_runs_with_the_instruction_set_that_is_named(tmp_path):
    script = tmp_path / "isa.py"
    script.write_text('import json\nfrom kdcode import _core\nprint(json.dumps({"isa": _core.isa()}))')
    assert own_process.measured_apart(str(script), [], tmp_path / "isa.json", 1, isa="plain") == {"isa": "plain"}


@pytest.mark.slow
def test_everyone_gives_one_vector_for_each_id(tmp_path):
    save_chosen(tmp_path, 500, 20)
    ids = np.array([7, 3, 7])
    found = contenders(500, 20, tmp_path)
    assert found.keys() == EVERYONE
    for name, contender in found.items():
        many, one = (contender.call(contender.given(each)) for each in (ids, ids[:1]))
        assert many.shape == (3, 20), name
        assert one.reshape(-1).shape == (20,)
        assert np.array_equal(np.asarray(many[0].tolist()), np.asarray(many[2].tolist()))


@pytest.fixture
def kept():
    return json.loads(RESULTS.read_text())["rows"]


@is_measured
def test_everything_is_measured(kept):
    rows = [row for row in kept if row["part"] == "lookup"]
    cells = {(row["rows"], row["dim"], row["batch"], row["contender"]) for row in rows}
    assert cells == {(*shape, batch, name) for shape in WHOLE.shapes for batch in WHOLE.plans for name in EVERYONE}


@is_measured
@pytest.mark.parametrize("name", MOST)
def test_rows_are_looked_up_as_quickly_as_promised(kept, name):
    large = {
        row["batch"]: row["ratio"]
        for row in reversed(kept)
        if row.get("contender") == name and row["rows"] == 10**6 and "ns" in row
    }
    for batch, most in MOST[name].items():
        assert large[batch] <= most, batch


@is_measured
def test_a_process_takes_the_memory_of_the_file(kept):
    memory = {row["contender"]: row for row in kept if row["part"] == "memory"}
    for name in ("kdcode.load", "CodedEmbedding"):
        assert memory[name]["ratio"] <= MOST_MEMORY, name
