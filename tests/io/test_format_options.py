"""Options of reading, progress, gzip, memory, and what importing costs."""

import gzip
import subprocess
import sys
import tracemalloc
from dataclasses import fields

import numpy as np
import pytest

import kdcode
from kdcode.errors import FormatError, OptionError
from kdcode.io import FORMATS, ReadOptions
from kdcode.table import VectorTable


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a 1 2\nb 3 4\n")
    return path


def test_every_option_has_a_help_text_and_a_format_that_uses_it():
    used = {name for known in FORMATS.values() for name in known.options}
    assert {item.name for item in fields(ReadOptions)} == used
    assert all(item.metadata["help"].endswith(".") for item in fields(ReadOptions))


def test_an_unknown_option_is_refused_by_name(glove):
    with pytest.raises(OptionError, match=r"no option 'tensr'; the options of reading are tensor, symbols"):
        kdcode.read(glove, tensr="x")


@pytest.mark.parametrize("options", [{"tensor": "x"}, {"symbols": "s"}, {"symbol_column": "s"}, {"vector_column": "v"}])
def test_an_option_without_meaning_is_refused_by_name(glove, options):
    with pytest.raises(OptionError, match=f"{next(iter(options))}= does not apply to the format 'glove'"):
        kdcode.read(glove, **options)


def test_an_option_at_its_default_is_never_refused(glove):
    assert len(kdcode.read(glove, tensor=None, symbols=None, on_bad_line="refuse")) == 2


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"limit": -1}, {"limit": 1.5}, {"limit": True}, {"on_bad_line": "ignore"}, {"tensor": 3}],
)
def test_values_that_cannot_work_are_refused_by_name(glove, options):
    with pytest.raises(OptionError, match=f"{next(iter(options))} must be"):
        kdcode.read(glove, **options)


@pytest.mark.parametrize("packed", [False, True])
def test_progress_of_reading_counts_bytes_of_the_file(tmp_path, monkeypatch, packed):
    monkeypatch.setattr("kdcode.io.lines.BLOCK_BYTES", 1000)
    text = "".join(f"w{row} {row}.5 {row}.25\n" for row in range(900)).encode()
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(text) if packed else text)
    seen = []
    kdcode.read(path, on_progress=lambda done, total: seen.append((done, total)))
    size = path.stat().st_size
    assert len(seen) >= 10
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {size}
    assert 0 < seen[0][0] <= size
    assert seen[-1][0] == size


def test_progress_of_writing_counts_rows(tmp_path):
    seen = []
    table = VectorTable(None, np.ones((20_000, 1)))
    kdcode.write(table, tmp_path / "a.txt", on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8192, 20_000), (16_384, 20_000), (20_000, 20_000)]


@pytest.mark.parametrize("name", ["a.txt", "a.vec", "a.bin", "a.csv"])
def test_truncated_and_damaged_gzip_is_refused(tmp_path, name):
    rng = np.random.default_rng(0)
    table = VectorTable([f"w{row}" for row in range(300)], rng.standard_normal((300, 5)))
    path = tmp_path / f"{name}.gz"
    kdcode.write(table, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError) as caught:
        kdcode.read(path)
    assert str(caught.value).startswith(f"{path}: the gzip data ends early")
    path.write_bytes(whole[:3000] + bytes(50) + whole[3050:])
    with pytest.raises(FormatError) as caught:
        kdcode.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_writing_gzip_is_reproducible_and_really_packed(tmp_path):
    table = VectorTable(["a", "b"], np.ones((2, 200)))
    kdcode.write(table, tmp_path / "one.txt.gz")
    kdcode.write(table, tmp_path / "two.txt.gz")
    packed = (tmp_path / "one.txt.gz").read_bytes()
    assert packed == (tmp_path / "two.txt.gz").read_bytes()
    assert gzip.decompress(packed).startswith(b"a 1.0 1.0 ")
    assert len(packed) < 200


@pytest.mark.parametrize("name", ["a.txt", "a.vec", "a.bin", "a.txt.gz", "a.csv"])
def test_memory_stays_near_the_size_of_the_matrix(tmp_path, name):
    numbers = np.random.default_rng(0).integers(-99, 99, 200).astype(np.float32)
    tail = b" " + numbers.tobytes() if name == "a.bin" else (" " + " ".join(map(str, numbers)) + "\n").encode()
    tail = tail.replace(b" ", b",") if name == "a.csv" else tail
    content = b"" if name.startswith(("a.txt", "a.csv")) else b"20000 200\n"
    content += b"".join(b"w%d" % row + tail for row in range(20_000))
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    del content
    tracemalloc.start()
    try:
        table = kdcode.read(tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.matrix.shape == (20_000, 200)
    assert (table.matrix == numbers).all()
    assert 16_000_000 < peak < 2 * 16_000_000


def test_memory_of_writing_does_not_grow_with_the_table(tmp_path):
    table = VectorTable(None, np.ones((60_000, 20), dtype=np.float16))
    tracemalloc.start()
    try:
        kdcode.write(table, tmp_path / "a.npy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60_000 * 20 * 4


def test_importing_formats_imports_neither_torch_nor_pyarrow():
    code = "import sys, kdcode.io; print([name for name in ('torch', 'pyarrow') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
