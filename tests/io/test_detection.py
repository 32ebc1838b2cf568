"""How a file's format is found, and what is said when it is not."""

import gzip
import os
import struct

import numpy as np
import pytest
import torch
from sample_tables import coded_table

import kdcode
from kdcode.errors import FormatError, KdcodeError, OptionError
from kdcode.inputs import as_table
from kdcode.io import FORMATS, detect
from kdcode.storage import save
from kdcode.table import VectorTable

GLOVE = b"the 1 2\nof 3 4\n"
HEADED = b"2 2\nthe 1 2\nof 3 4\n"
BINARY = b"1 2\nthe " + struct.pack("<2f", 1, 2)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", GLOVE, "glove"),
        ("a.txt", HEADED, "word2vec-text"),
        ("A.TXT", HEADED, "word2vec-text"),
        ("a.txt", b"2 2.5\n3 4.5\n", "glove"),
        ("a.txt", b"2 2 2\n3 4 5\n", "glove"),
        ("a.txt.gz", gzip.compress(GLOVE, mtime=0), "glove"),
        ("a.txt.gz", gzip.compress(HEADED, mtime=0), "word2vec-text"),
        ("a.txt", gzip.compress(HEADED, mtime=0), "word2vec-text"),
        ("a.txt.gz", HEADED, "word2vec-text"),
        ("a.vec", HEADED, "fasttext"),
        ("a.vec.gz", gzip.compress(HEADED, mtime=0), "fasttext"),
        ("a.bin", BINARY, "word2vec-binary"),
        ("a.bin.gz", gzip.compress(BINARY, mtime=0), "word2vec-binary"),
        ("a.bin", b"PK\x03\x04", "torch"),
        ("a.bin", b"\x80\x02\x8a", "torch"),
        ("a.pt", b"", "torch"),
        ("a.pth", b"", "torch"),
        ("a.csv", b"", "csv"),
        ("a.csv.gz", b"", "csv"),
        ("a.tsv", b"", "tsv"),
        ("a.npy", b"", "npy"),
        ("a.npz", b"", "npz"),
        ("a.safetensors", b"", "safetensors"),
        ("a.parquet", b"", "parquet"),
        ("a.gguf", b"", "gguf"),
        ("model", b"GGUF\x03\0\0\0", "gguf"),
    ],
)
def test_formats_are_found(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    found = detect(tmp_path / name)
    assert found is FORMATS[expected]
    assert found.name == expected


def test_what_torch_saves_as_bin_is_found(tmp_path):
    for zipped in (True, False):
        torch.save({}, tmp_path / "a.bin", _use_new_zipfile_serialization=zipped)
        assert detect(tmp_path / "a.bin").name == "torch"


def test_gzip_is_known_by_its_bytes_whatever_the_name(tmp_path):
    (tmp_path / "packed.txt").write_bytes(gzip.compress(GLOVE, mtime=0))
    (tmp_path / "plain.txt.gz").write_bytes(GLOVE)
    for name in ("packed.txt", "plain.txt.gz"):
        assert list(kdcode.read(tmp_path / name).symbols) == ["the", "of"]


def test_an_unknown_name_lists_every_format(tmp_path):
    (tmp_path / "a.xyz").write_bytes(b"a poem\nof two lines\n")
    with pytest.raises(FormatError) as caught:
        kdcode.read(tmp_path / "a.xyz")
    for part in [str(tmp_path / "a.xyz"), "format=", *FORMATS]:
        assert part in str(caught.value)
    with pytest.raises(FormatError, match="format="):
        kdcode.write(VectorTable(None, np.ones((1, 1))), tmp_path / "b.xyz")


def test_a_bin_file_that_is_neither_kind(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"hello\nworld")
    with pytest.raises(FormatError, match="found neither"):
        detect(tmp_path / "a.bin")


def test_our_own_files_are_pointed_to_load(tmp_path):
    (tmp_path / "a.kdc").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"kdcode\.load"):
        kdcode.read(tmp_path / "a.kdc")
    save(coded_table(), tmp_path / "a")
    with pytest.raises(FormatError, match=r"kdcode\.load"):
        kdcode.read(tmp_path / "a")


@pytest.mark.parametrize("call", [kdcode.read, detect, as_table])
def test_missing_files_and_folders_are_named_and_are_pythons_own_errors(tmp_path, call, monkeypatch):
    with pytest.raises(KdcodeError) as caught:
        call(tmp_path / "none.txt")
    assert isinstance(caught.value, FileNotFoundError)
    assert str(caught.value) == f"{tmp_path / 'none.txt'}: there is no such file"
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(KdcodeError, match="is a folder, expected a file") as caught:
        call(tmp_path / "folder.txt")
    assert isinstance(caught.value, IsADirectoryError)
    (tmp_path / "closed.txt").write_bytes(GLOVE)
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.R_OK)  # whoever runs the tests may read all files
    with pytest.raises(KdcodeError, match=r"closed\.txt: cannot be read: Permission denied") as caught:
        call(tmp_path / "closed.txt")
    assert isinstance(caught.value, PermissionError)


CONTENTS = {
    "glove": GLOVE,
    "word2vec-text": HEADED,
    "word2vec-binary": BINARY,
    "csv": b"symbol,x,y\nthe,1,2\nof,3,4\n",
    "tsv": b"the\t1\t2\nof\t3\t4\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "content"), CONTENTS.items())
def test_a_name_that_says_nothing_leaves_it_to_the_content(tmp_path, name, content, packed):
    (tmp_path / "stdin").write_bytes(gzip.compress(content, mtime=0) if packed else content)
    assert detect(tmp_path / "stdin").name == name
    assert kdcode.read(tmp_path / "stdin")["the"].tolist() == [1, 2]


@pytest.mark.parametrize("name", ["npy", "parquet", "safetensors"])
def test_binary_files_without_a_name_are_known_by_their_first_bytes(tmp_path, name):
    kdcode.write(VectorTable(None, np.ones((3, 2))), tmp_path / "stdin", format=name)
    assert detect(tmp_path / "stdin").name == name


def test_archives_without_a_name_are_known_by_what_they_hold(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=np.ones((3, 2)))
    torch.save(torch.ones(3, 2), tmp_path / "a.pt")
    torch.save(torch.ones(3, 2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for file, name in (("a.npz", "npz"), ("a.pt", "torch"), ("old.pt", "torch")):
        (tmp_path / file).rename(tmp_path / "stdin")
        assert detect(tmp_path / "stdin").name == name
        assert len(kdcode.read(tmp_path / "stdin")) == 3


def test_a_large_word2vec_binary_without_a_name(tmp_path):
    table = VectorTable(None, np.random.default_rng(0).normal(size=(500, 300)))
    kdcode.write(table, tmp_path / "stdin", format="word2vec-binary")
    assert detect(tmp_path / "stdin").name == "word2vec-binary"


@pytest.mark.parametrize("content", [b"the\t1\t2\nof\t3\t4\n", b"the,1,2\nof,3,4\n", b"the, 1, 2\nof, 3, 4\n"])
def test_a_txt_with_tabs_or_commas_is_read_as_such(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    assert kdcode.read(tmp_path / "a.txt")["of"].tolist() == [3, 4]


@pytest.mark.parametrize("content", [b", 1 2\n. 3 4\n", b"1,000 1 2\n2,5 3 4\n", b"a\tb 1 2\n"])
def test_commas_and_tabs_in_symbols_leave_it_glove(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    assert detect(tmp_path / "a.txt").name == "glove"


def test_a_format_of_no_known_name(tmp_path):
    (tmp_path / "a.txt").write_bytes(GLOVE)
    with pytest.raises(OptionError, match=r"no format 'glvoe'; the formats are glove, word2vec-text"):
        kdcode.read(tmp_path / "a.txt", format="glvoe")


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.gguf"])
def test_formats_that_are_only_read_say_what_can_be_written(tmp_path, name):
    with pytest.raises(OptionError, match=r"can only be read; formats to write are glove, .*parquet"):
        kdcode.write(VectorTable(None, np.ones((1, 1))), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "glove"),
        ("a.bin", "word2vec-binary"),
        ("a.vec.gz", "fasttext"),
        ("a.pq", "parquet"),
        ("a.csv.gz", "csv"),
    ],
)
def test_names_choose_the_format_to_write(tmp_path, name, expected):
    kdcode.write(VectorTable(["x"], np.ones((1, 3))), tmp_path / name)
    assert kdcode.read(tmp_path / name, format=expected)["x"].tolist() == [1, 1, 1]
