"""PyTorch files: data is loaded, code is not."""

import os
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import torch
from input_bombs import STORAGE

from kdcode import formats
from kdcode.errors import FormatError
from kdcode.formats import small_floats

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


class Labelled(torch.Tensor):
    """A subclass, as several libraries have them."""


def turned(matrix):
    return matrix.T.contiguous().T


KINDS = {
    **{name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")},
    **{name: getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")},
}
VIEWS = {
    "as it is": lambda matrix: matrix,
    "transposed": turned,
    "a part": lambda matrix: matrix[1:, 1:],
    "every second row": lambda matrix: matrix[::2],
    "expanded": lambda matrix: matrix[:1].expand(3, 2),
    "parameter": torch.nn.Parameter,
}


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_that_torch_reads(tmp_path, kind, view, zipped):
    if not zipped and "float8" in kind:
        pytest.skip("torch does not read these itself")
    path = tmp_path / "a.pt"
    tensor = VIEWS[view](torch.tensor([[0.5, -1.0], [2.0, 0.25], [-4.0, 1.5]]).to(KINDS[kind]))
    torch.save({"w": tensor, "bias": torch.ones(3)}, path, _use_new_zipfile_serialization=zipped)
    expected = torch.load(path, weights_only=True)["w"].detach().float()
    assert np.asarray(formats.read(path).matrix, dtype=np.float32).tolist() == expected.tolist()
    assert np.asarray(formats.read(path, limit=1).matrix, dtype=np.float32).tolist() == expected[:1].tolist()


@pytest.mark.parametrize("name", small_floats.NAMES)
def test_every_number_of_a_small_type(name):
    bits = np.arange(65_536, dtype=np.uint16) if name == "bfloat16" else np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(bits.copy()).view(getattr(torch, name)).float().numpy()
    assert np.array_equal(small_floats.as_float32(bits, name), expected, equal_nan=True)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_binary_pickles(tmp_path, protocol):
    state = {
        "w": MATRIX,
        7: {"v": torch.ones(2)},
        "note": "é" * 300,
        "blob": b"\xff" * 300,
        "big": 1 << 100,
        "none": None,
    }
    torch.save(state, tmp_path / "a.pt", pickle_protocol=protocol)
    assert formats.read(tmp_path / "a.pt").matrix.tolist() == MATRIX.tolist()


def test_tensors_that_share_a_storage(tmp_path):
    torch.save({"a": MATRIX[:2], "b": MATRIX[1:], "tied": MATRIX}, tmp_path / "a.pt")
    assert formats.read(tmp_path / "a.pt", tensor="b").matrix.tolist() == [[2, 3], [4, 5]]


def test_a_negative_view_is_negative(tmp_path):
    negative = torch._neg_view(MATRIX)
    torch.save({"w": negative}, tmp_path / "a.pt")
    assert formats.read(tmp_path / "a.pt").matrix.tolist() == (-MATRIX).tolist()


def test_a_subclass_is_read_as_a_tensor(tmp_path):
    torch.save({"w": MATRIX.as_subclass(Labelled)}, tmp_path / "a.pt")
    assert "it names" in refusal(tmp_path / "a.pt")  # a class that only its own library has
    buffer = torch.nn.Buffer(MATRIX)
    torch.save({"w": buffer}, tmp_path / "a.pt")
    assert formats.read(tmp_path / "a.pt").matrix.tolist() == MATRIX.tolist()


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


OTHERS = {
    "on the meta device": lambda: torch.ones(3, 2, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse ": lambda: torch.eye(3).to_sparse_csr(),
    "nested": nested,
    "quantized": lambda: torch.quantize_per_tensor(MATRIX, 0.1, 0, torch.qint8),
    "of another type": lambda: torch.ones(3, 2, dtype=torch.complex64),
    "of another type ": lambda: torch.ones(3, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    "of another type  ": lambda: torch.conj(torch.ones(3, 2, dtype=torch.complex64)),
    "of another type   ": lambda: torch.ones(3, 2, dtype=torch.uint16),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("kind", OTHERS)
def test_tensors_of_other_kinds_are_refused_by_kind(tmp_path, kind):
    torch.save({"w": OTHERS[kind]()}, tmp_path / "a.pt")
    assert f"expected a matrix of floats, found none: w is {kind.strip()}" in refusal(tmp_path / "a.pt")
    assert f"expected 'w' to be a matrix of floats, it is {kind.strip()}" in refusal(tmp_path / "a.pt", tensor="w")
    torch.save({"w": OTHERS[kind](), "v": MATRIX}, tmp_path / "a.pt")
    assert formats.read(tmp_path / "a.pt").matrix.tolist() == MATRIX.tolist()


def zipped(path, pickled, storage=bytes(64), name="0", **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr(f"a/data/{name}", storage)
    return path


def tensor_pickle(shape, strides, offset=0):
    numbers = [pickle.dumps(number, 2)[2:-1] for number in (offset, shape, strides)]
    return (
        b"\x80\x02}"
        + b"X\x01\0\0\0w"
        + b"ctorch._utils\n_rebuild_tensor_v2\n("
        + STORAGE
        + b"".join(numbers)
        + b"\x89}tRs."
    )


def test_the_hostile_files_below_start_from_a_good_one(tmp_path):
    path = zipped(tmp_path / "a.pt", tensor_pickle((4, 4), (4, 1)), np.arange(16, dtype=np.float32).tobytes())
    assert formats.read(path).matrix.tolist() == np.arange(16).reshape(4, 4).tolist()


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((4, 5), (4, 1), 0),
        ((4, 4), (5, 1), 0),
        ((4, 4), (4, 1), 1),
        ((4, 4), (-4, 1), 12),
        ((-4, -4), (4, 1), 0),
        ((4, 4), (4,), 0),
        ((1 << 62, 1 << 62), (0, 0), 0),
        ((4.0, 4), (4, 1), 0),
        ((True, 4), (4, 1), 0),
        ((0, 4), (4, 1), 0),
        ((4, 4), (4, 1), 1 << 60),
    ],
)
def test_tensors_that_reach_beyond_their_storage_are_refused(tmp_path, shape, strides, offset):
    refusal(zipped(tmp_path / "a.pt", tensor_pickle(shape, strides, offset)))


def test_archives_that_are_not_what_torch_writes_are_refused(tmp_path):
    good = tensor_pickle((4, 4), (4, 1))
    refusal(zipped(tmp_path / "a.pt", good, bytes(63)))
    refusal(zipped(tmp_path / "a.pt", good, name="1"))
    refusal(zipped(tmp_path / "a.pt", good, compression=zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "b.pt", "w") as archive:
        warnings.simplefilter("ignore")
        for name in ("a/data.pkl", "a/data.pkl", "a/data/0"):
            archive.writestr(name, good)
    assert "names that are distinct" in refusal(tmp_path / "b.pt")


@pytest.mark.parametrize(
    "tail", [b"", b".", b"R.", b"h\x07.", b"\x93.", b"Q.", b"t.", b"s.", b"I1\n.", b"\x95" + b"\xff" * 8]
)
def test_broken_pickles_are_refused(tmp_path, tail):
    refusal(zipped(tmp_path / "a.pt", b"\x80\x02" + tail))
    (tmp_path / "b.pt").write_bytes(b"\x80\x02" + tail)
    refusal(tmp_path / "b.pt")


@pytest.mark.parametrize(
    "call", [b"cos\nsystem\n", b"cbuiltins\neval\n", b"c__builtin__\ngetattr\n", b"ctorch.hub\nload\n"]
)
def test_names_of_code_are_refused(tmp_path, call):
    assert "never loaded" in refusal(zipped(tmp_path / "a.pt", b"\x80\x02" + call + b"X\x01\0\0\0x\x85R."))


def test_files_are_read_without_torch(tmp_path):
    torch.save({"w": MATRIX}, tmp_path / "a.pt")
    script = """
import sys
sys.modules["torch"] = None
from kdcode import formats
print(formats.read(sys.argv[1]).matrix.tolist())
"""
    run = [sys.executable, "-c", script, str(tmp_path / "a.pt")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == str(MATRIX.tolist())
