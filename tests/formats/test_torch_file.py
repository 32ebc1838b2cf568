"""PyTorch files: data is loaded, code is not."""

import os
import pickle
import sys

import numpy as np
import pytest
import torch

from kdcode import formats
from kdcode.errors import FormatError, MissingExtraError

MATRIX = torch.arange(6, dtype=torch.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        formats.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.bin"])
def test_the_only_matrix_of_a_state_dict_in_both_file_layouts(tmp_path, zipped, name):
    state = torch.nn.Embedding.from_pretrained(MATRIX).state_dict()
    torch.save(state | {"bias": torch.ones(3)}, tmp_path / name, _use_new_zipfile_serialization=zipped)
    assert formats.read(tmp_path / name).matrix.tolist() == MATRIX.tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_bare_tensor_or_parameter_of_each_number_format(tmp_path, dtype):
    torch.save(torch.nn.Parameter(MATRIX.to(dtype)), tmp_path / "a.pt")
    table = formats.read(tmp_path / "a.pt", limit=2)
    assert np.asarray(table.matrix, dtype=np.float32).tolist() == [[0, 1], [2, 3]]


def test_tensors_of_nested_dicts_have_dotted_names(tmp_path):
    torch.save(
        {"epoch": 3, "state_dict": {"a": MATRIX, "b": MATRIX.T, "n": torch.ones(2, 2, dtype=torch.int64)}},
        tmp_path / "a.pt",
    )
    message = refusal(tmp_path / "a.pt")
    assert "state_dict.a 3 x 2" in message
    assert "state_dict.b 2 x 3" in message
    assert "state_dict.n" not in message
    assert formats.read(tmp_path / "a.pt", tensor="state_dict.b").matrix.tolist() == MATRIX.T.tolist()
    assert "none of that name" in refusal(tmp_path / "a.pt", tensor="a")


def test_names_of_dicts_in_dicts_hold_every_level(tmp_path):
    torch.save({"model": {"text": {"embed": MATRIX}}}, tmp_path / "a.pt")
    assert formats.read(tmp_path / "a.pt", tensor="model.text.embed").matrix.tolist() == MATRIX.tolist()


def test_symbols_file(tmp_path):
    torch.save(MATRIX, tmp_path / "a.pt")
    (tmp_path / "a.symbols.txt").write_text("x\ny\nz\n")
    assert formats.read(tmp_path / "a.pt")["z"].tolist() == [4, 5]


class Attack:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_would_run_code_is_refused_and_runs_none(tmp_path, zipped):
    mark = tmp_path / "attacked"
    torch.save({"w": MATRIX, "x": Attack(mark)}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert "never loaded" in refusal(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Attack(mark)))
    assert "never loaded" in refusal(tmp_path / "b.pt")
    assert not mark.exists()


def test_damaged_files(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"w": MATRIX}, path)
    good = path.read_bytes()
    for content in (b"", b"hello", good[:-40], good[: len(good) // 2], b"\x80\x02" + bytes(20)):
        path.write_bytes(content)
        assert "not a PyTorch file" in refusal(path)


@pytest.mark.parametrize("value", [torch.ones(3), {"a": 1}, [MATRIX], {}, MATRIX.to_sparse()])
def test_files_without_a_matrix(tmp_path, value):
    torch.save(value, tmp_path / "a.pt")
    assert "found none" in refusal(tmp_path / "a.pt")


def test_values_that_are_not_finite_are_refused_by_row(tmp_path):
    torch.save(torch.tensor([[1.0], [float("inf")]]), tmp_path / "a.pt")
    assert "row 1" in refusal(tmp_path / "a.pt")


def test_without_torch_the_extra_is_named(tmp_path, monkeypatch):
    torch.save(MATRIX, tmp_path / "a.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"PyTorch .*pip install 'torch"):
        formats.read(tmp_path / "a.pt")
