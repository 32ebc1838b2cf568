"""safetensors files, made by the library and made by an attacker."""

import json
import warnings
from random import Random

import numpy as np
import pytest
import torch
from input_mutations import damaged
from input_samples import SAMPLES
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch

import kdcode
from kdcode.errors import FormatError, KdcodeError
from kdcode.io import ChosenMatrixWarning
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_only_matrix_of_floats_in_each_number_format(tmp_path, dtype):
    matrix = torch.tensor([[0.5, -1.25], [3.0, 1e-3]], dtype=dtype)
    save_torch(
        {"w": matrix, "bias": torch.ones(7), "ids": torch.ones(2, 2, dtype=torch.int64)}, tmp_path / "a.safetensors"
    )
    table = kdcode.read(tmp_path / "a.safetensors")
    assert isinstance(table.symbols, RowNumbers)
    assert np.array_equal(np.asarray(table.matrix, dtype=np.float32), matrix.float().numpy())


def test_floats_stay_on_disk(tmp_path):
    save_file({"w": MATRIX}, tmp_path / "a.safetensors")
    assert isinstance(kdcode.read(tmp_path / "a.safetensors").matrix.base, np.memmap)


def test_one_of_several_is_named_and_the_largest_is_listed_first(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a.weight": MATRIX, "table.weight": np.ones((5, 4), dtype=np.float16)}, path)
    assert kdcode.read(path, tensor="a.weight").matrix.tolist() == MATRIX.tolist()
    assert "holds 2 matrices, name one with tensor=: table.weight 5 x 4, a.weight 3 x 2" in refusal(path)
    assert "'b'" in refusal(path, tensor="b")


OTHERS = {"layer.0.attention.query.weight": np.ones((9, 9)), "embeddings.position_embeddings.weight": np.ones((8, 2))}


@pytest.mark.parametrize(
    "name",
    [
        "bert.embeddings.word_embeddings.weight",
        "model.embed_tokens.weight",
        "transformer.wte.weight",
        "tok_embeddings.weight",
        "text_model.embeddings.token_embedding.weight",
        "shared.weight",
        "gpt_neox.embed_in.weight",
        "item_embedding.weight",
        "embeddings.weight",
        "embedding.weight",
        "embeddings",
        "emb.weight",
    ],
)
def test_the_table_of_tokens_is_taken_and_said(tmp_path, name):
    path = tmp_path / "model.safetensors"
    save_file({name: MATRIX, **OTHERS}, path)
    with pytest.warns(ChosenMatrixWarning) as said:
        table = kdcode.read(path)
    assert table.matrix.tolist() == MATRIX.tolist()
    assert str(said[0].message) == f"{path}: read the tensor {name!r}, 3 x 2; another one is read with tensor="
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kdcode.read(path, tensor=name).matrix.tolist() == MATRIX.tolist()


def test_a_shared_table_is_taken_before_its_copies_and_two_tables_are_not_chosen_from(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"shared.weight": MATRIX, "encoder.embedding.weight": np.ones((2, 2))}, path)
    with pytest.warns(ChosenMatrixWarning, match=r"shared\.weight"):
        kdcode.read(path)
    save_file({"encoder.embed_tokens.weight": MATRIX, "decoder.embed_tokens.weight": np.ones((4, 2))}, path)
    assert "name one with tensor=: decoder.embed_tokens.weight 4 x 2, encoder.embed_tokens" in refusal(path)


@pytest.mark.parametrize("symbols", [["a", "b c", "é"], None])
def test_what_is_written_is_read_by_the_library_and_by_a_layer(tmp_path, symbols):
    path = tmp_path / "out.safetensors"
    kdcode.write(VectorTable(symbols, MATRIX), path)
    assert load_file(path)["weight"].tolist() == MATRIX.tolist()
    layer = torch.nn.Embedding(3, 2)
    layer.load_state_dict(load_torch(path))
    assert layer.weight.tolist() == MATRIX.tolist()
    assert list(kdcode.read(path).symbols) == (symbols or ["0", "1", "2"])
    assert (tmp_path / "out.symbols.txt").exists() == (symbols is not None)


def test_symbols_file_and_limit(tmp_path):
    save_file({"w": MATRIX}, tmp_path / "a.safetensors")
    (tmp_path / "vocab.txt").write_text("x\ny\nz\n")
    table = kdcode.read(tmp_path / "a.safetensors", symbols=tmp_path / "vocab.txt", limit=2)
    assert list(table.symbols) == ["x", "y"]
    assert table["y"].tolist() == [2, 3]


def test_values_that_are_not_finite_are_refused_by_row(tmp_path):
    save_file({"w": np.array([[1, 2], [3, np.nan]], dtype=np.float32)}, tmp_path / "a.safetensors")
    assert "row 1" in refusal(tmp_path / "a.safetensors")


def made(header, body=b"\0" * 24):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + body


def entry(**changes):
    return {"w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]} | changes}


def test_the_hostile_files_below_start_from_a_good_one(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(made(entry()))
    assert kdcode.read(tmp_path / "a.safetensors").matrix.shape == (3, 2)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the header claims"),
        (b"\xff" * 8 + b"{}", "the header claims"),
        (made(b"[1]"), "not a JSON object"),
        (made(b"{"), "not a JSON object"),
        (made(b"[" * 100_000), "not a JSON object"),
        (made(entry(), b"\0" * 23), "do not fit the 23 bytes of tensors"),
        (made(entry(data_offsets=[0, 20])), "do not fit"),
        (made(entry(data_offsets=[4, 28])), "do not fit"),
        (made(entry(data_offsets=[-24, 0])), "do not fit"),
        (made(entry(data_offsets="x")), "do not fit: expected lists"),
        (made(entry(data_offsets=[0.0, 24.0])), "do not fit"),
        (made(entry(shape=[3, -2])), "do not fit"),
        (made(entry(shape=[1 << 60, 1 << 60])), "do not fit"),
        (made(entry(shape=[0, 2], data_offsets=[0, 0]), b""), "the matrix is empty"),
        (made(entry(dtype="I32")), "expected a matrix of floats, found none"),
        (made(entry(dtype=[])), "'w': the header entry is malformed"),
        (made({"w": 3}), "'w': the header entry is malformed"),
    ],
)
def test_hostile_files_are_refused(tmp_path, content, reason):
    (tmp_path / "a.safetensors").write_bytes(content)
    assert reason in refusal(tmp_path / "a.safetensors")


def twice(header):
    return json.dumps(header).encode()[:-1] + b", " + json.dumps(header).encode()[1:]


ONE = entry()
OTHER = {"v": {"dtype": "F32", "shape": [3, 2], "data_offsets": [24, 48]}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (made(twice(ONE)), "not a JSON object"),
        (made(json.dumps(ONE).replace('"shape"', '"dtype"').encode()), "not a JSON object"),
        (made(b'{"\xff": 1}'), "not a JSON object"),
        (made(b'{"w\\ud800": ' + json.dumps(ONE["w"]).encode() + b"}"), "not a JSON object"),
        (made(json.dumps(ONE).replace("[0,", "[-0,").encode()), "not a JSON object"),
        (made(ONE | {"v": ONE["w"]}, bytes(24)), "starts at byte 0, where the tensor before it ends at 24"),
        (made(ONE | {"v": {**OTHER["v"], "data_offsets": [20, 44]}}, bytes(44)), "starts at byte 20"),
        (made(ONE | {"v": {**OTHER["v"], "data_offsets": [28, 52]}}, bytes(52)), "starts at byte 28"),
        (made(OTHER, bytes(48)), "starts at byte 24, where the tensor before it ends at 0"),
        (made(ONE, bytes(25)), "the tensors fill 24 of the 25 bytes"),
        (made(ONE | {"v": {**OTHER["v"], "dtype": "F33"}}, bytes(48)), "unknown dtype"),
        (made(ONE | {"v": {**OTHER["v"], "more": 1}}, bytes(48)), "malformed"),
        (made(ONE | {"v": 1}), "malformed"),
        (made(ONE | {"v": {"dtype": "F32", "shape": [1 << 40, 1 << 40, 0], "data_offsets": [24, 24]}}), "do not fit"),
        (made(ONE | {"__metadata__": {"a": 1}}), "not a JSON object of strings"),
        (made(ONE | {"__metadata__": []}), "not a JSON object"),
        (made(entry() | {"x" * 10**6: 3}), "malformed"),
        (made(entry(shape=[1] * 10**5 + [7])), "do not fit"),
    ],
)
def test_what_the_library_refuses_and_what_means_two_things_is_refused(tmp_path, content, reason):
    (tmp_path / "a.safetensors").write_bytes(content)
    message = refusal(tmp_path / "a.safetensors")
    assert reason in message
    assert len(message) < 1000


def test_two_tensors_side_by_side_are_good(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(made(ONE | OTHER, bytes(48)))
    assert kdcode.read(tmp_path / "a.safetensors", tensor="v").matrix.shape == (3, 2)


def test_what_is_accepted_the_library_accepts_too(tmp_path):
    samples = [sample for sample in SAMPLES if sample.format == "safetensors"]
    random, path, accepted = Random(0), tmp_path / "a.safetensors", 0
    for _ in range(1500):
        path.write_bytes(damaged(random, random.choice(samples))[1])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ChosenMatrixWarning)
                kdcode.read(path, format="safetensors", tensor=random.choice((None, "w", "other")))
        except KdcodeError:
            continue
        accepted += 1
        with safe_open(path, "numpy") as file:
            assert file.keys()
    assert accepted > 30
