"""Pipes, standard input and other things that are no files: all rows come back, or it is refused."""

import errno
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from input_samples import SAMPLES, gguf_bytes

import kdcode
from kdcode.errors import FileError, FolderError, FormatError, MissingFileError
from kdcode.io import FORMATS, detect
from kdcode.io.row_weights import read_weights
from kdcode.table import VectorTable

ROWS = 1000
MATRIX = np.random.default_rng(0).standard_normal((ROWS, 5)).astype(np.float32)
TABLE = VectorTable([f"word{row}" for row in range(ROWS)], MATRIX)
LINES = "".join(f"{symbol}\n" for symbol in TABLE.symbols).encode()


@contextmanager
def fifo(path, content):
    """A pipe that a thread writes to."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    try:
        yield path
    finally:
        writer.join()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.format}{sample.suffix}")
@pytest.mark.parametrize("named", [True, False])
def test_every_format_from_a_named_pipe(tmp_path, sample, named):
    options = dict(sample.options)
    path = tmp_path / (f"pipe{sample.suffix}" if named else "pipe")
    with fifo(path, sample.content):
        table = kdcode.read(path, format=None if named else sample.format, **options)
    assert np.array_equal(np.asarray(table.matrix, dtype=np.float32), sample.matrix)
    assert tuple(table.symbols) == (sample.symbols or tuple(map(str, range(len(table)))))


def written(tmp_path, name):
    """A table of a thousand rows in each format, which is more than a buffer holds."""
    path = tmp_path / f"a{FORMATS[name].suffixes[0]}"
    if FORMATS[name].write is not None:
        kdcode.write(TABLE, path, format=name)
    elif name == "npz":
        np.savez(path, vectors=MATRIX, symbols=np.array(TABLE.symbols))
    elif name == "gguf":
        return gguf_bytes(tmp_path, {"token_embd.weight": (MATRIX, "F32")}, TABLE.symbols)
    else:
        torch = pytest.importorskip("torch")
        torch.save(torch.from_numpy(MATRIX), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_of_every_format_from_standard_input(tmp_path, name):
    script = """
import sys
import kdcode
table = kdcode.read("/dev/stdin", format=sys.argv[1] or None)
print(len(table), table.symbols[-1], table.matrix.tobytes().hex())
"""
    content = written(tmp_path, name)
    for named in (name, ""):
        run = [sys.executable, "-c", script, named]
        rows, last, numbers = subprocess.run(run, input=content, capture_output=True, check=True).stdout.split()
        assert int(rows) == ROWS
        assert last.decode() in ("word999", "999")
        assert bytes.fromhex(numbers.decode()) == MATRIX.tobytes()


def test_symbols_and_weights_from_a_pipe(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    with fifo(tmp_path / "symbols", LINES) as pipe:
        assert kdcode.read(tmp_path / "a.npy", symbols=pipe).symbols == TABLE.symbols
    with fifo(tmp_path / "weights", b"".join(b"%d\n" % row for row in range(ROWS))) as pipe:
        assert read_weights(pipe, TABLE).tolist() == list(range(ROWS))


def test_errors_name_the_pipe_and_not_its_copy(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    with fifo(tmp_path / "some\nnames", LINES[:-1] + b"x\nmore\n") as pipe, pytest.raises(FormatError) as caught:
        kdcode.read(tmp_path / "a.npy", symbols=pipe)
    assert str(caught.value).startswith(f"{tmp_path}/some\\nnames: line 1001: expected one symbol for each of")
    with fifo(tmp_path / "pipe.txt", b"a 1 2\na 1 2\n") as pipe, pytest.raises(FormatError) as caught:
        kdcode.read(pipe)
    assert str(caught.value).startswith(f"{pipe}: line 2: ")


def test_the_format_of_a_pipe_is_not_looked_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(FormatError, match="can be read only once"):
        detect(tmp_path / "pipe.txt")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_devices_are_refused(tmp_path, device):
    (tmp_path / "a.txt").symlink_to(device)
    with pytest.raises(FileError, match="is a device") as caught:
        kdcode.read(tmp_path / "a.txt")
    assert caught.value.errno == errno.ENODEV
    np.save(tmp_path / "a.npy", MATRIX)
    with pytest.raises(FileError, match="is a device"):
        kdcode.read(tmp_path / "a.npy", symbols=device)


def test_sockets_are_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "a.txt"))
        with pytest.raises(FileError, match="cannot be read"):
            kdcode.read(tmp_path / "a.txt")


def loop(folder):
    (folder / "a.txt").symlink_to("b.txt")
    (folder / "b.txt").symlink_to("a.txt")
    return folder / "a.txt"


def dangling(folder):
    (folder / "a.txt").symlink_to("nowhere")
    return folder / "a.txt"


@pytest.mark.parametrize(
    ("make", "kind", "reason"),
    [
        (loop, FileError, "symbolic link"),
        (dangling, MissingFileError, "there is no such file"),
        (lambda folder: folder / "none", MissingFileError, "there is no such file"),
        (lambda folder: folder / ("x" * 5000), FileError, "name too long"),
        (lambda folder: folder / "a\0b", FileError, "null"),
        (lambda folder: folder, FolderError, "is a folder"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda path, matrix: kdcode.read(path),
        lambda path, matrix: detect(path),
        lambda path, matrix: kdcode.read(matrix, symbols=path),
    ],
    ids=["read", "detect", "symbols"],
)
def test_what_is_no_file_is_refused(tmp_path, make, kind, reason, use):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make(folder)
    np.save(tmp_path / "a.npy", MATRIX)
    with pytest.raises(kind) as caught:
        use(path, tmp_path / "a.npy")
    assert reason in str(caught.value).lower()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_is_closed_to_us(tmp_path):
    (tmp_path / "a.txt").write_text("a 1 2\n")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(PermissionError, match="cannot be read"):
        kdcode.read(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["a\nb.txt", "a\x1b[31m.txt", "\udcff.txt", "a\u202eb.txt"])
def test_odd_names_are_read_and_shown_escaped(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"a 1 2\n")
    assert len(kdcode.read(path)) == 1
    path.write_bytes(b"a 1 2\na 1 2\n")
    with pytest.raises(FormatError) as caught:
        kdcode.read(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_file_is_refused_by_name(tmp_path, name):
    path = tmp_path / f"a{FORMATS[name].suffixes[0]}"
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=str(path)):
        kdcode.read(path)
    with pytest.raises(FormatError, match=str(path)):
        kdcode.read(path, format=name)
