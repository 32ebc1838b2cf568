"""How a file's format is found, and what is said when it is not."""

import gzip
import struct

import numpy as np
import pytest
import torch

from kdcode import formats
from kdcode.errors import FormatError, OptionError
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
        ("a.npy", b"", "npy"),
        ("a.npz", b"", "npz"),
        ("a.safetensors", b"", "safetensors"),
        ("a.parquet", b"", "parquet"),
    ],
)
def test_formats_are_found(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    found = formats.detect(tmp_path / name)
    assert found is formats.FORMATS[expected]
    assert found.name == expected


def test_what_torch_saves_as_bin_is_found(tmp_path):
    for zipped in (True, False):
        torch.save({}, tmp_path / "a.bin", _use_new_zipfile_serialization=zipped)
        assert formats.detect(tmp_path / "a.bin").name == "torch"


def test_gzip_is_known_by_its_bytes_whatever_the_name(tmp_path):
    (tmp_path / "packed.txt").write_bytes(gzip.compress(GLOVE, mtime=0))
    (tmp_path / "plain.txt.gz").write_bytes(GLOVE)
    for name in ("packed.txt", "plain.txt.gz"):
        assert list(formats.read(tmp_path / name).symbols) == ["the", "of"]


def test_an_unknown_name_lists_every_format(tmp_path):
    (tmp_path / "a.xyz").write_bytes(GLOVE)
    with pytest.raises(FormatError) as caught:
        formats.read(tmp_path / "a.xyz")
    for part in [str(tmp_path / "a.xyz"), "format=", *formats.FORMATS]:
        assert part in str(caught.value)
    assert len(formats.read(tmp_path / "a.xyz", format="glove")) == 2
    with pytest.raises(FormatError, match="format="):
        formats.write(VectorTable(None, np.ones((1, 1))), tmp_path / "b.xyz")


def test_a_bin_file_that_is_neither_kind(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"hello\nworld")
    with pytest.raises(FormatError, match="found neither"):
        formats.detect(tmp_path / "a.bin")


def test_our_own_files_are_pointed_to_load(tmp_path):
    (tmp_path / "a.kdc").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"kdcode\.load"):
        formats.read(tmp_path / "a.kdc")


@pytest.mark.parametrize("call", [formats.read, formats.detect])
def test_missing_files_and_folders_are_named(tmp_path, call):
    with pytest.raises(FormatError) as caught:
        call(tmp_path / "none.txt")
    assert str(caught.value) == f"{tmp_path / 'none.txt'}: there is no such file"
    with pytest.raises(FormatError, match="found a folder"):
        call(tmp_path)


def test_a_format_of_no_known_name(tmp_path):
    (tmp_path / "a.txt").write_bytes(GLOVE)
    with pytest.raises(OptionError, match=r"no format 'glvoe'; the formats are glove, word2vec-text"):
        formats.read(tmp_path / "a.txt", format="glvoe")


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pt"])
def test_formats_that_are_only_read_say_what_can_be_written(tmp_path, name):
    with pytest.raises(OptionError, match=r"can only be read; formats to write are glove, .*parquet"):
        formats.write(VectorTable(None, np.ones((1, 1))), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.txt", "glove"), ("a.bin", "word2vec-binary"), ("a.vec.gz", "fasttext"), ("a.pq", "parquet")],
)
def test_names_choose_the_format_to_write(tmp_path, name, expected):
    formats.write(VectorTable(["x"], np.ones((1, 3))), tmp_path / name)
    assert formats.FORMATS[expected].read(tmp_path / name, formats.ReadOptions(), None)["x"].tolist() == [1, 1, 1]
