"""NumPy .npy: memory-mapped, symbols found beside it."""

import mmap
import os

import numpy as np
import pytest

import kdcode
from kdcode.errors import FormatError
from kdcode.io import ChosenMatrixWarning, SkippedLinesWarning
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def is_mapped(array):
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array is not None


def refusal(path, **options):
    with pytest.raises(FormatError) as caught:
        kdcode.read(path, **options)
    return str(caught.value)


def test_without_symbols_rows_are_unnamed_and_mapped(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    table = kdcode.read(tmp_path / "a.npy")
    assert isinstance(table.symbols, RowNumbers)
    assert is_mapped(table.matrix)
    assert np.array_equal(table.matrix, MATRIX)


@pytest.mark.parametrize("name", ["a.symbols.txt", "a.txt", "symbols.txt"])
def test_symbols_are_found_beside_the_matrix(tmp_path, name):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / name).write_text("x\ny z\n日本\n")
    assert list(kdcode.read(tmp_path / "a.npy").symbols) == ["x", "y z", "日本"]


def test_the_nearest_name_wins_and_symbols_says_otherwise(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "symbols.txt").write_text("1\n2\n3\n")
    (tmp_path / "a.symbols.txt").write_text("x\r\ny\r\nz")
    (tmp_path / "mine").write_text("p\nq\nr\n")
    assert list(kdcode.read(tmp_path / "a.npy").symbols) == ["x", "y", "z"]
    assert list(kdcode.read(tmp_path / "a.npy", symbols=tmp_path / "mine").symbols) == ["p", "q", "r"]


@pytest.mark.parametrize("text", ["x 0 1\ny 2 3\nz 4 5\n", "3 2\nx 0 1\ny 2 3\nz 4 5\n"])
def test_the_same_table_as_text_is_not_taken_for_its_symbols(tmp_path, text):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "a.txt").write_text(text)
    assert isinstance(kdcode.read(tmp_path / "a.npy").symbols, RowNumbers)


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4", "int8"])
def test_other_kinds_of_numbers(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.asfortranarray(MATRIX.astype(dtype)))
    assert kdcode.read(tmp_path / "a.npy")["2"].tolist() == [4, 5]


def test_limit_keeps_matrix_and_symbols_together(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "symbols.txt").write_text("x\ny\nz\n")
    table = kdcode.read(tmp_path / "a.npy", limit=2)
    assert list(table.symbols) == ["x", "y"]
    assert table.matrix.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x\ny\n", "line 3: expected one symbol for each of the 3 rows"),
        (b"x\ny\nz\nw\n", "line 4: expected one symbol for each of the 3 rows"),
        (b"x\n\nz\n", "line 2: expected a symbol, found an empty line"),
        (b"x\ny\nx\n", "line 3: the symbol 'x' stands in line 1 already"),
        (b"x\n\xff\nz\n", "line 2: the symbol"),
        (b"", "line 1: expected one symbol for each of the 3 rows"),
    ],
)
def test_a_symbols_file_that_does_not_fit_is_refused_by_line(tmp_path, content, reason):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "names").write_bytes(content)
    message = refusal(tmp_path / "a.npy", symbols=str(tmp_path / "names"))
    assert f"{tmp_path / 'names'}: {reason}" in message


def test_a_missing_symbols_file_is_named(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    with pytest.raises(FileNotFoundError) as caught:
        kdcode.read(tmp_path / "a.npy", symbols=tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'}: there is no such file"


def test_hostile_files_are_refused_by_name(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, MATRIX)
    good = path.read_bytes()
    bad = {
        "truncated": good[:-1],
        "header cut": good[:20],
        "empty": b"",
        "not numpy": b"hello world",
        "huge": good.replace(b"(3, 2), }          ", b"(3, 9999999999999),"),
        "negative": good.replace(b"(3, 2)", b"(-3,2)"),
        "pickle": b"\x80\x04K\x01.",
    }
    for name, content in bad.items():
        path.write_bytes(content)
        assert str(path) in refusal(path), name


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones(3), "found shape (3,)"),
        (np.ones((2, 2, 2)), "found shape (2, 2, 2)"),
        (np.ones((2, 2), dtype=complex), "real numbers"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1.0, np.nan]]), "row 0 ('0') has a value that is not a finite"),
        (np.array([[1.0], [1e300]]), "row 1 ('1') has a value that is not a finite"),
        (np.array([[None]]), "not a usable .npy file"),
    ],
)
def test_arrays_that_are_no_table(tmp_path, array, reason):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    message = refusal(tmp_path / "a.npy")
    assert str(tmp_path / "a.npy") in message
    assert reason in message


def test_writes_what_numpy_reads_and_symbols_that_we_find(tmp_path):
    kdcode.write(VectorTable(["x", "y z", "a\rb"], MATRIX), tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), MATRIX)
    assert (tmp_path / "a.symbols.txt").read_bytes() == b"x\ny z\na\rb\n"
    assert list(kdcode.read(tmp_path / "a.npy").symbols) == ["x", "y z", "a\rb"]


def test_symbols_that_look_like_rows_of_a_text_table_come_back(tmp_path):
    kdcode.write(VectorTable(["area 51", "2 1"], MATRIX[:2, :1]), tmp_path / "a.npy")
    assert list(kdcode.read(tmp_path / "a.npy").symbols) == ["area 51", "2 1"]


def test_unnamed_rows_are_written_without_symbols(tmp_path):
    kdcode.write(VectorTable(None, MATRIX), tmp_path / "a.npy")
    assert [file.name for file in tmp_path.iterdir()] == ["a.npy"]


def test_unnamed_rows_are_not_written_where_they_would_get_other_names(tmp_path):
    kdcode.write(VectorTable(["x", "y", "z"], MATRIX), tmp_path / "a.npy")
    with pytest.raises(FormatError, match=r"a\.symbols\.txt would be read as theirs"):
        kdcode.write(VectorTable(None, MATRIX + 1), tmp_path / "a.npy")
    assert np.array_equal(np.load(tmp_path / "a.npy"), MATRIX)


@pytest.mark.parametrize("symbol", ["", "a\nb", "a\r"])
def test_symbols_that_would_not_come_back_leave_both_files_alone(tmp_path, symbol):
    kdcode.write(VectorTable(["x", "y", "z"], MATRIX), tmp_path / "a.npy")
    with pytest.raises(FormatError, match="row 2: the symbol"):
        kdcode.write(VectorTable(["p", "q", symbol], MATRIX + 1), tmp_path / "a.npy")
    assert list(kdcode.read(tmp_path / "a.npy").symbols) == ["x", "y", "z"]
    assert np.array_equal(np.load(tmp_path / "a.npy"), MATRIX)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["a.npy", "a.safetensors"])
def test_a_file_that_is_cut_short_while_it_is_opened(tmp_path, monkeypatch, name):
    path = tmp_path / name
    kdcode.write(VectorTable(None, MATRIX), path)
    memmap = np.memmap

    def cut(file, *arguments, **keywords):
        os.truncate(file, 10)
        return memmap(file, *arguments, **keywords)

    monkeypatch.setattr(np, "memmap", cut)
    refusal(path)


def test_warnings_are_safe_to_print(tmp_path):
    path = tmp_path / "a\x1b[31m\n.txt"
    path.write_bytes(b"a 1 2\n\x1b[31m\xff 1 2\nb 3 4\n")
    with pytest.warns(SkippedLinesWarning) as given:
        kdcode.read(path, on_bad_line="skip")
    assert str(given[0].message).isprintable()
    path = tmp_path / "a\x1b[31m\n.npz"
    np.savez(path, **{"\x1b[31m.wte": MATRIX, "b": MATRIX})
    with pytest.warns(ChosenMatrixWarning) as given:
        kdcode.read(path)
    assert str(given[0].message).isprintable()
