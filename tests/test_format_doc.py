"""docs/format.md is true: its worked example is a real file, and its numbers are those of the benchmark."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import kdc_reader
import numpy as np
import pytest
from sample_tables import CODEWORD_NAMES, NAMES, TRANSFORM_NAMES, coded_table, spec_of, words

from kdcode import CodedTable, load, save, storage
from kdcode.codec import CodewordSpec, Transform, TransformSpec, make_codec
from kdcode.codec.codeword_spec import MAX_SCALE_BITS
from kdcode.codec.spec import KINDS, MAX_CODEBOOK_SIZE
from kdcode.codec.transform.centroids import CENTROID_BITS, MAX_CENTROIDS, TOTAL
from kdcode.codec.transform.level_tables import MAX_CONTEXTS, MAX_MAGNITUDE
from kdcode.codec.transform.rotation import BITS
from kdcode.codec.transform.rows import BLOCKS_PER_START
from kdcode.codec.transform.spec import (
    MAX_CLASSES,
    MAX_ROTATED,
    MAX_ROWS_PER_BLOCK,
    MORE_ROW_BYTES,
    MOST_BLOCK_BYTES,
    MOST_SIDES,
    ROW_BYTES_PER_LEVEL,
    SIDE_UNIT,
    STATES,
)
from kdcode.digests import BLOCK_BYTES, DIGEST_BYTES
from kdcode.safetensors_header import DTYPES
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
    spec = CodewordSpec.named("linear", 2, 4, 3, codebook_dtype="float16", scale_bits=1)
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


def tensors_of(section: str) -> dict[str, str]:
    """The dtypes of the tensors in a section of the page."""
    return {cells[0].strip("`"): cells[1] for cells in rows_of(section) if len(cells) == 4}


def test_every_tensor_is_on_the_page_and_no_other():
    written = {"codes", "digests"}
    for name in CODEWORD_NAMES:
        written |= set(spec_of(name, "int8").tensor_layout())
    written |= {f"symbols.{name}" for name in coded_table(rows=2, symbols=words(2)).symbols.arrays}
    assert set(tensors_of("Tensors")) == written


def test_every_tensor_of_transform_codes_is_on_the_page_and_no_other():
    spec = spec_of("transform-centroids-blocks")
    written = {**spec.tensor_layout(), **spec.row_layout(300)}
    dtypes = {
        name: next(code for code, dtype in DTYPES.items() if dtype == kind) for name, (kind, _) in written.items()
    }
    assert tensors_of("Transform codes") == dtypes


ROW = bytes.fromhex("8b5e83")


@pytest.fixture
def by_hand():
    """The codec of the row that the page decodes by hand."""
    fields = {"codebook_size": 64, "reflections": 1, "states": 32, "level_groups": 3, "contexts": 1, "weights": 6}
    spec = TransformSpec("transform", 5, lengths=(3,), mean_length=3.0, **fields)
    tensors = {
        "mean": np.array([1, 0, 0, 0, 0], np.float32),
        "steps": np.array([0.5], np.float32),
        "group_sizes": np.array([2, 2, 1], np.uint8),
        "group_contexts": np.zeros(3, np.uint8),
        "class_contexts": np.zeros(1, np.int8),
        "magnitudes": np.array([[1, 1]], np.uint16),
        "weights": np.array([80, 64, 32, 64, 64, 32], np.uint8),
        "sides": np.array([64, 64, 32, 32, 32], np.uint8),
        "search": np.array([0.5, 0.5], np.float32),
        "reflections": np.frombuffer(bytes.fromhex("8c888888"), np.uint8).reshape(1, 4),
        "reflection_scale": np.array([0.25], np.float32),
    }
    return Transform(spec, tensors)


def test_the_row_that_is_decoded_by_hand_is_one(by_hand):
    assert "8b 5e 83" in DOC
    codes = by_hand.unpack(np.frombuffer(ROW, np.uint8).reshape(1, 3))
    assert codes.tolist() == [[3, 0, 0, 12, 1, 0, 0b110110]]
    assert by_hand.decode(codes).tolist() == [[1.25, -1.25, 0.125, -2.875, 0.375]]
    assert "(1.25, −1.25, .125, −2.875, .375)" in DOC
    assert by_hand.pack(codes).tobytes() == ROW


def test_every_step_of_it_is_as_the_page_says(by_hand):
    decoder, levels = kdc_reader.Decoder(ROW), kdc_reader.Levels(asdict(by_hand.spec), by_hand.stored)
    assert levels.read(decoder, 0, 3) == ([[2, 0, 0, -6, 1]], [], [1, 0, 1, 1, 0])
    documented = re.findall(r"^\| ([0-9a-f]{5,7}) \| ([0-9a-f]+) \| (\d+) \|", DOC, flags=re.MULTILINE)
    assert [(int(span, 16), int(code, 16), int(read)) for span, code, read in documented] == decoder.trace
    page = " ".join(DOC.split())
    for sizes in levels.marginals:
        assert " ".join(map(str, sizes)) in page
    for main, tail in levels.tables.values():
        named = ["".join(map(str, values)) for values in main.values]
        entries = ", ".join(f"{name} {size}" for name, size in zip(named, main.sizes, strict=False))
        assert f"{entries}, escape {main.sizes[-1]}" in page
        assert not tail.values


def test_the_trellis_is_on_the_page():
    rows = re.findall(r"^\| (\d+) \| ([01]+) \| ([01]+) \|$", DOC, flags=re.MULTILINE)
    found = {int(states): (int(feedback, 2), int(forward, 2)) for states, feedback, forward in rows}
    assert set(found) == set(STATES)
    assert found == {states: (kdc_reader.FEEDBACK[states], kdc_reader.FORWARD[states]) for states in STATES}
    assert " ".join(map(str, kdc_reader.SIXTEENTHS)) in DOC


@pytest.mark.parametrize("name", NAMES)
def test_the_metadata_is_on_the_page_and_no_other(name, tmp_path):
    save(coded_table(name), tmp_path / "t.kdc")
    raw = (tmp_path / "t.kdc").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    metadata = json.loads(header["__metadata__"]["kdcode"])
    documented = {field for cells in rows_of("Metadata") for field in re.findall(r"`(\w+)`", cells[0])}
    if name in TRANSFORM_NAMES:
        documented -= {"code_length", "inner_dim", "groups", "basis", "codebook_dtype", "scale_bits"}
        documented |= {cells[0].strip("`") for cells in rows_of("Transform codes") if len(cells) == 2}
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
    assert f"C from 1 to {MAX_CLASSES}" in DOC
    assert f"T, from 1 to {MAX_CONTEXTS}" in DOC
    assert f"at most {ROW_BYTES_PER_LEVEL}·R·d + {MORE_ROW_BYTES} and at most {MOST_BLOCK_BYTES:,}" in DOC
    assert f"R, from 1 to {MAX_ROWS_PER_BLOCK}" in DOC
    assert f"P, from 0 to {MAX_CENTROIDS:,}" in DOC
    assert f"0 where d is above {MAX_ROTATED:,}" in DOC
    assert f"at most {MAX_MAGNITUDE:,} and below K/4" in DOC
    assert f"of the trellis: {', '.join(map(str, STATES[:-1]))} or {STATES[-1]}" in DOC
    assert f"bits of each of their numbers: {' or '.join(map(str, CENTROID_BITS))}" in DOC
    assert f"These have {BITS} bits" in DOC
    assert f"min(r, {MOST_SIDES}, R·a)" in DOC
    assert f"⌈B/{BLOCKS_PER_START}⌉" in DOC
    assert f"2{'¹⁵' if TOTAL == 1 << 15 else ''} places, of which centroid j" in " ".join(DOC.split())
    assert f"`sides[i]`/{1 / SIDE_UNIT:.0f}" in DOC


def test_the_bytes_are_those_of_the_benchmark():
    records = json.loads((ROOT / "benchmarks" / "results" / "symbol_index.json").read_text())["rows"]
    taken = {(record["kind"], record["index"]): record["bytes_per_symbol"] for record in records}
    words, pairs = (taken[kind, "kdcode"] / taken[kind, "marisa-trie"] - 1 for kind in ("real words", "pairs of words"))
    assert f"we take {-words:.0%} less for words, {pairs:.0%} more for pairs of words" in DOC
