"""PyTorch files: data is loaded, code is not; and what the walk through a pickle is for."""

import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
import torch
from input_bombs import STORAGE, doubled_tuple, state_dict, storage_pickle, torch_zip

import kdcode
from kdcode.errors import FormatError, MissingExtraError

MATRIX = torch.arange(6, dtype=torch.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.bin"])
def test_the_only_matrix_of_a_state_dict_in_both_file_layouts(tmp_path, zipped, name):
    state = torch.nn.Embedding.from_pretrained(MATRIX).state_dict()
    torch.save(state | {"bias": torch.ones(3)}, tmp_path / name, _use_new_zipfile_serialization=zipped)
    assert kdcode.read(tmp_path / name).matrix.tolist() == MATRIX.tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_bare_tensor_or_parameter_of_each_number_format(tmp_path, dtype):
    torch.save(torch.nn.Parameter(MATRIX.to(dtype)), tmp_path / "a.pt")
    table = kdcode.read(tmp_path / "a.pt", limit=2)
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
    assert kdcode.read(tmp_path / "a.pt", tensor="state_dict.b").matrix.tolist() == MATRIX.T.tolist()
    assert "none of that name" in refusal(tmp_path / "a.pt", tensor="a")


def test_names_of_dicts_in_dicts_hold_every_level(tmp_path):
    torch.save({"model": {"text": {"embed": MATRIX}}}, tmp_path / "a.pt")
    assert kdcode.read(tmp_path / "a.pt", tensor="model.text.embed").matrix.tolist() == MATRIX.tolist()


def test_symbols_file(tmp_path):
    torch.save(MATRIX, tmp_path / "a.pt")
    (tmp_path / "a.symbols.txt").write_text("x\ny\nz\n")
    assert kdcode.read(tmp_path / "a.pt")["z"].tolist() == [4, 5]


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


@pytest.mark.parametrize("value", [torch.ones(3), {"a": 1}, [MATRIX], {}])
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
    assert np.asarray(kdcode.read(path).matrix, dtype=np.float32).tolist() == expected.tolist()
    assert np.asarray(kdcode.read(path, limit=1).matrix, dtype=np.float32).tolist() == expected[:1].tolist()


def test_a_checkpoint_with_more_than_tensors(tmp_path):
    layers = torch.nn.Sequential(torch.nn.Embedding.from_pretrained(MATRIX, freeze=False), torch.nn.Linear(2, 1))
    groups = [{"params": layers[0].parameters()}, {"params": layers[1].parameters()}]
    optimizer = torch.optim.Adam(groups)
    layers(torch.tensor([0])).sum().backward()
    optimizer.step()
    state = {
        "model": layers.state_dict(),
        "optimizer": optimizer.state_dict(),  # its groups share a tuple
        7: {"v": torch.ones(2)},
        "note": "é" * 300,
        "sizes": [MATRIX.shape, None, 1.5],
        "big": 1 << 100,
        "type": torch.bfloat16,
        "place": torch.device("cpu"),
    }
    torch.save(state, tmp_path / "a.pt")
    expected = layers[0].weight.detach().numpy()
    assert np.array_equal(kdcode.read(tmp_path / "a.pt", tensor="model.0.weight").matrix, expected)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_other_protocols_are_refused_by_name(tmp_path, protocol):
    torch.save(MATRIX, tmp_path / "a.pt", pickle_protocol=protocol)
    assert f"its pickles have protocol {protocol}, expected 2" in refusal(tmp_path / "a.pt")


def test_tensors_that_share_a_storage(tmp_path):
    torch.save({"a": MATRIX[:2], "b": MATRIX[1:], "tied": MATRIX}, tmp_path / "a.pt")
    assert kdcode.read(tmp_path / "a.pt", tensor="b").matrix.tolist() == [[2, 3], [4, 5]]


def test_a_negative_view_is_negative(tmp_path):
    negative = torch._neg_view(MATRIX)
    torch.save({"w": negative}, tmp_path / "a.pt")
    assert kdcode.read(tmp_path / "a.pt").matrix.tolist() == (-MATRIX).tolist()


@pytest.mark.parametrize("tensor", [MATRIX.as_subclass(Labelled), torch.nn.Buffer(MATRIX)], ids=["own", "buffer"])
def test_subclasses_are_refused(tmp_path, tensor):
    torch.save({"w": tensor}, tmp_path / "a.pt")
    assert "it names torch._tensor._rebuild_from_type_v2" in refusal(tmp_path / "a.pt")


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


OTHERS = {
    "on the meta device": lambda: torch.ones(3, 2, device="meta"),
    "of the type torch.complex64": lambda: torch.ones(3, 2, dtype=torch.complex64),
    "of the type torch.float4_e2m1fn_x2": lambda: torch.ones(3, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    "of the type torch.complex64 ": lambda: torch.conj(torch.ones(3, 2, dtype=torch.complex64)),
    "of the type torch.uint16": lambda: torch.ones(3, 2, dtype=torch.uint16),
}
LAYOUTS = {
    "_rebuild_sparse_tensor": lambda: torch.eye(3).to_sparse(),
    "_rebuild_nested_tensor": nested,
    "_rebuild_qtensor": lambda: torch.quantize_per_tensor(MATRIX, 0.1, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", LAYOUTS)
def test_tensors_that_are_not_plain_are_refused_by_name(tmp_path, name):
    """Loading these takes time that the size of a file does not limit."""
    torch.save({"w": LAYOUTS[name](), "v": MATRIX}, tmp_path / "a.pt")
    assert f"it names torch._utils.{name}" in refusal(tmp_path / "a.pt")


@pytest.mark.parametrize("kind", OTHERS)
def test_tensors_of_other_kinds_are_refused_by_kind(tmp_path, kind):
    torch.save({"w": OTHERS[kind]()}, tmp_path / "a.pt")
    assert f"expected a matrix of floats, found none: w is {kind.strip()}" in refusal(tmp_path / "a.pt")
    assert f"expected 'w' to be a matrix of floats, it is {kind.strip()}" in refusal(tmp_path / "a.pt", tensor="w")
    torch.save({"w": OTHERS[kind](), "v": MATRIX}, tmp_path / "a.pt")
    assert kdcode.read(tmp_path / "a.pt").matrix.tolist() == MATRIX.tolist()


def zipped(path, pickled, storage=bytes(64), name="0", **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr(f"a/data/{name}", storage)
        archive.writestr("a/version", "3\n")
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
    assert kdcode.read(path).matrix.tolist() == np.arange(16).reshape(4, 4).tolist()


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


def test_a_name_is_not_taken_for_a_type(tmp_path):
    for name in (b"torch\nload", b"torch\nzeros", b"torch.storage\nTypedStorage", b"torch.nn\nfloat32"):
        assert "it names" in refusal(zipped(tmp_path / "a.pt", b"\x80\x02c" + name + b"\n."))


@pytest.mark.parametrize("cut", [b"PK\x06\x06", b"PK\x06\x07", b"PK\x05\x06"])
def test_an_archive_in_which_another_reader_could_find_another_pickle_is_refused(tmp_path, cut):
    torch.save(MATRIX, tmp_path / "a.pt")
    good = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(good + bytes(4))
    assert "the end of the archive is damaged" in refusal(tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(good.replace(cut, bytes(4)))
    refusal(tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(good[:4] + bytes(8) + good[4:])
    refusal(tmp_path / "a.pt")


def test_the_walk_refuses_what_torch_alone_takes_memory_or_time_for(tmp_path):
    """The losses without it: see `test_size_limits` for files of full size."""
    path = tmp_path / "a.pt"
    path.write_bytes(state_dict(b"c__builtin__\nbytearray\nJ" + (10**7).to_bytes(4, "little") + b"\x85R"))
    assert path.stat().st_size < 600
    assert len(torch.load(path, weights_only=True)["x"]) == 10**7
    refusal(path)
    path.write_bytes(torch_zip(b"\x80\x02}" + doubled_tuple(16) + b"K\0s."))
    (key,) = torch.load(path, weights_only=True)  # to hash it takes 2^16 steps
    assert len(repr(key)) > 1 << 17
    assert "it uses SETITEM" in refusal(path)
    path.write_bytes(torch_zip(storage_pickle(doubled_tuple(16))))
    tracemalloc.start()
    with pytest.raises(RuntimeError):  # in whose message the key would stand
        torch.load(path, weights_only=True, mmap=True)
    assert tracemalloc.get_traced_memory()[1] > 500 * path.stat().st_size
    tracemalloc.stop()
    assert "it uses BINPERSID" in refusal(path)


def test_without_torch_the_extra_is_named_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "a.pt").write_bytes(b"\x80 damaged")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"torch is required for reading PyTorch files .*pip install 'torch"):
        kdcode.read(tmp_path / "a.pt")


def test_numbers_stay_in_the_file(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(30_000_000, 2)}, path)
    script = """
import resource, sys, torch, kdcode
from kdcode.io import torch_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert len(kdcode.read(sys.argv[1], limit=10)) == 10
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    ran = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60_000  # KB; the file has 240 MB
