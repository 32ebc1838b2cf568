"""docs/format.md is true: its worked example is a real file, and its numbers are those of the benchmark."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sample_tables import NAMES, coded_table, spec_of, words

from kdcode import CodedTable, load, save, storage
from kdcode.codec import CodecSpec, make_codec
from kdcode.codec.spec import KINDS, MAX_CODEBOOK_SIZE, MAX_SCALE_BITS
from kdcode.digests import BLOCK_BYTES, DIGEST_BYTES
from kdcode.symbols import BLOCK_SYMBOLS, MAX_SYMBOL_BYTES

ROOT = Path(__file__).parent.parent
DOC = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


def documented_file() -> bytes:
    """The worked example, put together from the page alone."""
    dump = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) ", DOC, flags=re.MULTILINE)
    pieces = {int(offset, 16): bytes.fromhex(content) for offset, content in dump}
    header = re.search(r"```json\n(.*?)```", DOC, flags=re.DOTALL)[1].replace("\n", "").encode()
    pieces[8] = header + b" " * (-len(header) % 8)
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
        ]
    )
    spec = CodecSpec.named("linear", 2, 4, 3, codebook_dtype="float16", scale_bits=1)
    codec = make_codec(spec, {"codebook": codebook, "scale_levels": np.array([1, 4])})
    codes = np.array([[3, 0, 1, 1], [2, 3, 0, 0], [1, 2, 3, 0]])
    save(CodedTable.from_codes(["the", "of", "and"], codes, codec), tmp_path / "t.kdc")
    assert (tmp_path / "t.kdc").read_bytes() == documented_file()


def test_the_worked_example_loads(tmp_path):
    (tmp_path / "t.kdc").write_bytes(documented_file())
    coded = load(tmp_path / "t.kdc")
    assert coded["the"].tolist() == [8, -3]
    assert [coded.code_of(symbol) for symbol in ("the", "of", "and")] == [(3, 0, 1, 1), (2, 3, 0, 0), (1, 2, 3, 0)]


def rows_of(section: str) -> list[list[str]]:
    """The cells of the table in a section of the page, without its head."""
    text = re.search(rf"^## {section}\n(.*?)^## ", DOC, flags=re.DOTALL | re.MULTILINE)[1]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_tensor_is_on_the_page_and_no_other():
    documented = {cells[0].strip("`") for cells in rows_of("Tensors")}
    written = {"codes", "digests"}
    for name in NAMES:
        written |= set(spec_of(name, "int8").tensor_layout())
    written |= {f"symbols.{name}" for name in coded_table(rows=2, symbols=words(2)).symbols.arrays}
    assert documented == written


@pytest.mark.parametrize("name", NAMES)
def test_the_metadata_is_on_the_page_and_no_other(name, tmp_path):
    save(coded_table(name), tmp_path / "t.kdc")
    raw = (tmp_path / "t.kdc").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    metadata = json.loads(header["__metadata__"]["kdcode"])
    documented = {field for cells in rows_of("Metadata") for field in re.findall(r"`(\w+)`", cells[0])}
    assert set(metadata) == documented
    assert metadata["format"] == storage.FORMAT_VERSION == 1
    assert f'`"{metadata["kind"]}"`' in DOC


def test_every_constant_is_on_the_page():
    assert all(f'"{kind}"' in DOC for kind in KINDS)
    assert f"8 + n is at most {storage.MAX_HEADER_BYTES:,}" in DOC
    assert f"from 2 to {MAX_CODEBOOK_SIZE:,}" in DOC
    assert f"s from 1 to {MAX_SCALE_BITS}" in DOC
    assert f"Every {BLOCK_SYMBOLS} ranks" in DOC
    assert f"the first {DIGEST_BYTES} bytes of the SHA-256" in DOC
    assert f"{BLOCK_BYTES:,}·(i + 1)" in DOC
    assert f"at most {storage.MAX_NESTING} deep" in DOC
    assert f"at most {MAX_SYMBOL_BYTES:,} bytes" in DOC


def test_the_bytes_are_those_of_the_benchmark():
    records = json.loads((ROOT / "benchmarks" / "results" / "symbol_index.json").read_text())["rows"]
    taken = {(record["kind"], record["index"]): record["bytes_per_symbol"] for record in records}
    words, pairs = (taken[kind, "kdcode"] / taken[kind, "marisa-trie"] - 1 for kind in ("real words", "pairs of words"))
    assert f"we take {words:.0%} more for words, {pairs:.0%} for pairs of words" in DOC
