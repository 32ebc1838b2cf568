"""docs/format.md is true: its worked example is a real file, and its numbers are those of the benchmark."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from kdcode import CodedTable, load, save, storage
from kdcode.budget import NUMBER_BYTES, weight_tensors
from kdcode.codebook import Codebook
from kdcode.composition import COMPOSITIONS
from kdcode.symbols import BLOCK_SYMBOLS, MAX_SYMBOL_BYTES

ROOT = Path(__file__).parent.parent
DOC = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


def documented_file() -> bytes:
    """The worked example, put together from the page alone."""
    dump = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) ", DOC, flags=re.MULTILINE)
    pieces = {int(offset, 16): bytes.fromhex(content) for offset, content in dump}
    header = re.search(r"```json\n(.*?)```", DOC, flags=re.DOTALL)[1].replace("\n", "").encode()
    pieces[8] = header + b" "
    whole = b""
    for offset in sorted(pieces):
        assert offset == len(whole), f"the line at {offset:04x} should be at {len(whole):04x}"
        whole += pieces[offset]
    return whole


def test_the_worked_example_is_what_kdcode_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "__version__", "0.1.0")
    codebook = np.array(
        [
            [[0, 1], [1, 0], [1, 1], [2, -1]],
            [[0, 0], [0, 0.5], [0.5, 0], [0.5, 0.5]],
            [[0, 0], [0, 0.25], [0.25, 0], [-0.25, 0.25]],
        ],
        dtype=np.float32,
    )
    codes = np.array([[3, 0, 1], [2, 3, 0], [1, 2, 3]])
    save(CodedTable.from_codes(["the", "of", "and"], codes, Codebook.of(codebook, "float16")), tmp_path / "t.kdc")
    assert (tmp_path / "t.kdc").read_bytes() == documented_file()


def test_the_worked_example_loads(tmp_path):
    (tmp_path / "t.kdc").write_bytes(documented_file())
    coded = load(tmp_path / "t.kdc")
    assert coded["the"].tolist() == [2, -0.75]
    assert [coded.code_of(symbol) for symbol in ("the", "of", "and")] == [(3, 0, 1), (2, 3, 0), (1, 2, 3)]


def test_every_tensor_and_constant_is_on_the_page():
    for composition in COMPOSITIONS:
        for name in weight_tensors(composition, 2, 3, "int8", rotated=True):
            assert f"`composition.{name}`" in DOC
    for field in storage._COUNTS:
        assert f"`{field}`" in DOC
    assert f"at most {storage.MAX_OVERHEAD_BYTES:,}" in DOC
    assert f"Every {BLOCK_SYMBOLS} ranks" in DOC
    assert f"at most {MAX_SYMBOL_BYTES:,} bytes" in DOC
    assert set(NUMBER_BYTES) == {"float32", "float16", "int8"}


@pytest.mark.parametrize("index", ["kdcode", "marisa-trie", "sorted array", "dict of text"])
def test_the_numbers_are_those_of_the_benchmark(index):
    records = json.loads((ROOT / "benchmarks" / "results" / "symbol_index.json").read_text())["rows"]
    words, pairs = (record for record in records if record["index"] == index)
    keys = {"bytes_per_symbol": 2, "nanoseconds_per_lookup": 0, "open_to_first_lookup_ms": 1, "resident_mb": 1}
    cells = [f"{words[key]:,.{digits}f} / {pairs[key]:,.{digits}f}" for key, digits in keys.items()]
    assert f"| {index} | {' | '.join(cells)} |" in DOC
