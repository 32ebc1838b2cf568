"""NumPy .npz archives."""

import io
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import kdcode
from kdcode import data
from kdcode.errors import FormatError
from kdcode.io.numpy_files import read_array_header
from kdcode.symbols import RowNumbers

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
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
    table = kdcode.read(tmp_path / "a.npz", limit=2)
    assert list(table.symbols) == ["x", "y z"]
    assert table.matrix.tolist() == [[0, 1], [2, 3]]
    assert list(kdcode.read(tmp_path / "a.npz").symbols) == ["x", "y z", "é"]


def test_a_single_matrix_has_unnamed_rows_or_a_symbols_file(tmp_path):
    np.savez(tmp_path / "a.npz", MATRIX)
    assert isinstance(kdcode.read(tmp_path / "a.npz").symbols, RowNumbers)
    (tmp_path / "names").write_text("x\ny\nz\n")
    assert list(kdcode.read(tmp_path / "a.npz", symbols=tmp_path / "names").symbols) == ["x", "y", "z"]


def test_one_of_several_matrices_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", left=MATRIX, right=MATRIX + 1, flat=np.ones(3))
    assert kdcode.read(tmp_path / "a.npz", tensor="right")["0"].tolist() == [1, 2]
    message = refusal(tmp_path / "a.npz")
    assert "left 3 x 2" in message
    assert "right 3 x 2" in message
    assert "flat" not in message
    assert "it has shape (3,)" in refusal(tmp_path / "a.npz", tensor="flat")
    assert "none of that name" in refusal(tmp_path / "a.npz", tensor="centre")


def test_the_embedded_table_is_such_a_file():
    table = data.glove_50d()
    path = next(file for file in data.files("kdcode.data").iterdir() if file.name.endswith(".npz"))
    assert kdcode.read(path).symbols == table.symbols


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"vectors": MATRIX, "symbols": np.array(["x", "y"])}, "found 2 for 3 rows"),
        ({"vectors": MATRIX, "symbols": np.array(["x", "y", "x"])}, "symbol 'x' stands in row 2"),
        ({"vectors": MATRIX, "symbols": np.array([1.0, 2, 3])}, "found float64 of shape (3,)"),
        ({"vectors": MATRIX, "symbols": np.frombuffer(b"x\n\xff\nz", dtype=np.uint8)}, "is not UTF-8"),
        ({"vectors": np.full((1, 2), np.inf)}, "row 0 ('0')"),
        ({"vectors": np.ones(3)}, "expected a matrix of floats, found none"),
        ({"vectors": MATRIX, "symbols": np.array(["x", None, "z"], dtype=object)}, "found object of shape (3,)"),
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


def test_a_symbol_beyond_the_last_character_is_refused_by_row(tmp_path):
    symbols = np.array(["x", "y", "z"])
    symbols.view(np.uint32)[1] = 0x110000
    np.savez(tmp_path / "a.npz", vectors=MATRIX, symbols=symbols)
    assert "row 1: the symbol is not UTF-32-LE text" in refusal(tmp_path / "a.npz")
    symbols.view(np.uint32)[1] = 0xD800
    np.savez(tmp_path / "a.npz", vectors=MATRIX, symbols=symbols)
    assert "row 1: the symbol is not UTF-32-LE text" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", [">U3", "<U3", "|S3"])
def test_strings_of_any_byte_order_and_of_full_width(tmp_path, kind):
    np.savez(tmp_path / "a.npz", vectors=MATRIX, symbols=np.array(["abc", "x", ""]).astype(kind))
    assert list(kdcode.read(tmp_path / "a.npz").symbols) == ["abc", "x", ""]


def test_rows_of_columns_that_lie_one_after_the_other(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=np.asfortranarray(MATRIX), symbols=np.array(["x", "y", "z"]))
    assert kdcode.read(tmp_path / "a.npz").matrix.tolist() == MATRIX.tolist()
    assert kdcode.read(tmp_path / "a.npz", limit=2).matrix.tolist() == MATRIX[:2].tolist()


def entry(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def archived(path, *entries, method=zipfile.ZIP_STORED):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore")  # about names that appear twice
        for name, content in entries:
            archive.writestr(name, content)
    return path


def test_two_arrays_of_one_name_are_refused(tmp_path):
    path = archived(tmp_path / "a.npz", ("vectors.npy", entry(MATRIX)), ("vectors.npy", entry(MATRIX + 1)))
    assert "two of its arrays are called 'vectors'" in refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_of_compression_that_numpy_does_not_use_are_refused(tmp_path, method):
    path = archived(tmp_path / "a.npz", ("vectors.npy", entry(MATRIX)), method=method)
    assert "expected none, or deflate" in refusal(path)


class Attack:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.mkdir, (self.mark,)


def test_pickles_are_never_run(tmp_path):
    objects = np.array([[Attack(tmp_path / "attacked")]], dtype=object)
    path = archived(tmp_path / "a.npz", ("vectors.npy", entry(MATRIX)), ("symbols.npy", entry(objects[0])))
    assert "found object of shape" in refusal(path)
    refusal(archived(tmp_path / "b.npz", ("vectors.npy", entry(objects))))
    np.save(tmp_path / "c.npy", objects, allow_pickle=True)
    refusal(tmp_path / "c.npy")
    assert not (tmp_path / "attacked").exists()


def test_records_and_dates_beside_the_matrix_are_passed_over(tmp_path):
    records = np.zeros(3, dtype=[("a", "<f4"), ("b", "<U3", (2, 2))])
    dates = np.array(["2017-01-01"], dtype="M8[D]")
    np.savez(tmp_path / "a.npz", vectors=MATRIX, records=records, dates=dates, flag=np.array(True), one=np.float64(3))
    assert kdcode.read(tmp_path / "a.npz").matrix.tolist() == MATRIX.tolist()
    assert "there is none of that name" in refusal(tmp_path / "a.npz", tensor="records")


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
    "{'shape': (3L, 2L), 'fortran_order': False, 'descr': '<f4'}",
    '{"descr": "<f4", "fortran_order": False, "shape": (3, 2)}  \n',
]
BAD_HEADERS = [
    "",
    "{}",
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -2)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2**1)}",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 2)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)} + {}",
    "{'descr': '<f3', 'fortran_order': False, 'shape': (3, 2)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 99999999999999999)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'x': 1in[2]}" + "1or" * 900,
    "{" * 900,
]


def array_file(header):
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header.encode() + MATRIX.tobytes()


@pytest.mark.parametrize("header", HEADERS)
def test_headers_as_several_programs_write_them(tmp_path, header):
    (tmp_path / "a.npy").write_bytes(array_file(header))
    assert kdcode.read(tmp_path / "a.npy").matrix.tolist() == MATRIX.tolist()


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_headers_that_no_program_writes_are_refused_without_a_warning(tmp_path, header):
    (tmp_path / "a.npy").write_bytes(array_file(header))
    archived(tmp_path / "a.npz", ("vectors.npy", array_file(header)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "not a usable .npy file" in refusal(tmp_path / "a.npy")
        assert "not a usable .npz file" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("array", [np.zeros(()), np.zeros(3), MATRIX, np.asfortranarray(MATRIX), np.zeros((2, 3, 4))])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "|i1", "<u8", "<U5", "|S3", "|b1", "<c16"])
def test_headers_say_what_numpy_reads(array, kind):
    stream = io.BytesIO(entry(array.astype(kind)))
    header = read_array_header(stream)
    assert header.shape == array.shape
    assert header.dtype == np.dtype(kind)
    assert header.order == ("F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C")
    assert header.start == stream.tell()
