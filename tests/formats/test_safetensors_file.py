"""safetensors files, made by the library and made by an attacker."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from kdcode import formats
from kdcode.errors import FormatError
from kdcode.symbols import RowNumbers

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        formats.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_only_matrix_of_floats_in_each_number_format(tmp_path, dtype):
    matrix = torch.tensor([[0.5, -1.25], [3.0, 1e-3]], dtype=dtype)
    save_torch(
        {"w": matrix, "bias": torch.ones(7), "ids": torch.ones(2, 2, dtype=torch.int64)}, tmp_path / "a.safetensors"
    )
    table = formats.read(tmp_path / "a.safetensors")
    assert isinstance(table.symbols, RowNumbers)
    assert np.array_equal(np.asarray(table.matrix, dtype=np.float32), matrix.float().numpy())


def test_floats_stay_on_disk(tmp_path):
    save_file({"w": MATRIX}, tmp_path / "a.safetensors")
    assert isinstance(formats.read(tmp_path / "a.safetensors").matrix.base, np.memmap)


def test_one_of_several_is_named_and_the_largest_is_listed_first(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"a.weight": MATRIX, "embed.weight": np.ones((5, 4), dtype=np.float16)}, path)
    assert formats.read(path, tensor="a.weight").matrix.tolist() == MATRIX.tolist()
    assert "holds 2 matrices, name one with tensor=: embed.weight 5 x 4, a.weight 3 x 2" in refusal(path)
    assert "'b'" in refusal(path, tensor="b")


def test_symbols_file_and_limit(tmp_path):
    save_file({"w": MATRIX}, tmp_path / "a.safetensors")
    (tmp_path / "vocab.txt").write_text("x\ny\nz\n")
    table = formats.read(tmp_path / "a.safetensors", symbols=tmp_path / "vocab.txt", limit=2)
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
    assert formats.read(tmp_path / "a.safetensors").matrix.shape == (3, 2)


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
        (made(entry(data_offsets="x")), "w: the header entry is malformed"),
        (made(entry(data_offsets=[0.0, 24.0])), "do not fit"),
        (made(entry(shape=[3, -2])), "do not fit"),
        (made(entry(shape=[1 << 60, 1 << 60])), "do not fit"),
        (made(entry(shape=[0, 2], data_offsets=[0, 0])), "the matrix is empty"),
        (made(entry(dtype="I32")), "expected a matrix of floats, found none"),
        (made(entry(dtype=[])), "expected a matrix of floats, found none"),
        (made({"w": 3}), "expected a matrix of floats, found none"),
    ],
)
def test_hostile_files_are_refused(tmp_path, content, reason):
    (tmp_path / "a.safetensors").write_bytes(content)
    assert reason in refusal(tmp_path / "a.safetensors")
