"""NumPy .npz archives."""

import io
import zipfile

import numpy as np
import pytest

from kdcode import data, formats
from kdcode.errors import FormatError
from kdcode.symbols import RowNumbers

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        formats.read(path, **options)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "symbols",
    [
        np.array(["x", "y z", "é"]),
        np.array([b"x", b"y z", "é".encode()]),
        np.frombuffer("x\ny z\né".encode(), dtype=np.uint8),
    ],
)
def test_vectors_and_symbols(tmp_path, symbols):
    np.savez_compressed(tmp_path / "a.npz", vectors=MATRIX, symbols=symbols, other=np.ones((4, 4)))
    table = formats.read(tmp_path / "a.npz", limit=2)
    assert list(table.symbols) == ["x", "y z"]
    assert table.matrix.tolist() == [[0, 1], [2, 3]]
    assert list(formats.read(tmp_path / "a.npz").symbols) == ["x", "y z", "é"]


def test_a_single_matrix_has_unnamed_rows_or_a_symbols_file(tmp_path):
    np.savez(tmp_path / "a.npz", MATRIX)
    assert isinstance(formats.read(tmp_path / "a.npz").symbols, RowNumbers)
    (tmp_path / "names").write_text("x\ny\nz\n")
    assert list(formats.read(tmp_path / "a.npz", symbols=tmp_path / "names").symbols) == ["x", "y", "z"]


def test_one_of_several_matrices_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", left=MATRIX, right=MATRIX + 1, flat=np.ones(3))
    assert formats.read(tmp_path / "a.npz", tensor="right")["0"].tolist() == [1, 2]
    message = refusal(tmp_path / "a.npz")
    assert "left 3 x 2" in message
    assert "right 3 x 2" in message
    assert "flat" not in message
    assert "it has shape (3,)" in refusal(tmp_path / "a.npz", tensor="flat")
    assert "none of that name" in refusal(tmp_path / "a.npz", tensor="centre")


def test_the_embedded_table_is_such_a_file():
    table = data.glove_50d()
    path = next(file for file in data.files("kdcode.data").iterdir() if file.name.endswith(".npz"))
    assert formats.read(path).symbols == table.symbols


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"vectors": MATRIX, "symbols": np.array(["x", "y"])}, "found 2 for 3 rows"),
        ({"vectors": MATRIX, "symbols": np.array(["x", "y", "x"])}, "symbol 'x' stands in row 2"),
        ({"vectors": MATRIX, "symbols": np.array([1.0, 2, 3])}, "found float64 of shape (3,)"),
        ({"vectors": MATRIX, "symbols": np.frombuffer(b"x\n\xff\nz", dtype=np.uint8)}, "is not UTF-8"),
        ({"vectors": np.full((1, 2), np.inf)}, "row 0 ('0')"),
        ({"vectors": np.ones(3)}, "expected a matrix of floats, found none"),
        ({"vectors": MATRIX, "symbols": np.array(["x", None, "z"], dtype=object)}, "'symbols' of shape (3,)"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, reason):
    np.savez(tmp_path / "a.npz", **arrays)
    assert reason in refusal(tmp_path / "a.npz")


def test_damaged_archives(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, vectors=np.arange(600.0).reshape(300, 2))
    good = path.read_bytes()
    middle = bytearray(good)
    middle[150:160] = bytes(10)
    for name, content in {"empty": b"", "cut": good[:-30], "damaged": bytes(middle), "text": b"a 1 2\n"}.items():
        path.write_bytes(content)
        assert str(path) in refusal(path), name


def test_a_header_that_promises_more_than_its_entry_holds_is_refused_before_memory_is_taken(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 10)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("vectors.npy", stream.getvalue() + b"1234")
    assert "the entry has" in refusal(tmp_path / "a.npz")
