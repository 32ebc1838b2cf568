"""Files that commands write: what is refused, before any work, and what is kept of a file that is replaced."""

import os
import resource
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import kdcode
from kdcode.errors import FileError, OptionError
from kdcode.files import beside
from kdcode.io import FORMATS, written_files

FAST = ["-K", "2", "-D", "2", "--effort", "fast", "--quiet"]

WRITERS: dict[str, Callable[[Path, Path, Path], list[object]]] = {
    "compress": lambda words, kdc, out: ["compress", words, out, *FAST],
    "expand": lambda words, kdc, out: ["expand", kdc, out, "--format", "csv", "--quiet"],
    "export": lambda words, kdc, out: ["export", kdc, out, "--quiet"],
    "demo": lambda words, kdc, out: ["demo", "--out", out, "--quiet"],
}
"""Every command that writes a file."""

QUICK = [name for name in WRITERS if name != "demo"]
"""Those that can be run to the end in a moment."""


def of_writers(names=tuple(WRITERS)):
    return pytest.mark.parametrize("writer", names)


def as_they_are(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Everything in a folder: its kind, and its bytes or where it leads."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        held = path.read_bytes() if stat.S_ISREG(mode) else str(path.readlink()) if stat.S_ISLNK(mode) else ""
        found[path.name] = (mode, held)
    return found


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # its address has no place for a long path


NO_TARGETS = {
    "pipe": (os.mkfifo, "it is a pipe"),
    "device": (lambda path: path.symlink_to("/dev/null"), "it is a device"),
    "socket": (a_socket, "it is a socket"),
    "folder": (Path.mkdir, "is a folder"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "a symbolic link to 'nowhere', which does not exist"),
    "link to a missing folder": (lambda path: path.symlink_to("no/where"), "which does not exist"),
    "link to itself": (lambda path: path.symlink_to(path.name), "its symbolic links lead in a circle"),
}


@of_writers()
@pytest.mark.parametrize("what", NO_TARGETS)
def test_force_replaces_nothing_but_files(run, words, kdc, tmp_path, writer, what):
    make, said = NO_TARGETS[what]
    target = tmp_path / "out.kdc"
    make(target)
    before = as_they_are(tmp_path)
    for force in ([], ["--force"]):
        result = run(*WRITERS[writer](words, kdc, target), *force)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {target}: ")
        assert said in result.stderr
        assert result.stderr.count("\n") == 1  # refused before anything was said of the work
    assert as_they_are(tmp_path) == before


@of_writers()
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/out.kdc", "there is no folder"),
        ("words.txt/out.kdc", "Not a directory"),
        ("n" * 256, "File name too long"),
    ],
)
def test_places_that_cannot_be(run, words, kdc, tmp_path, writer, name, said):
    result = run(*WRITERS[writer](words, kdc, tmp_path / name))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {tmp_path / name}: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write anywhere: go on as somebody else."""
    if os.getuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@of_writers()
def test_a_folder_that_is_closed(run, words, kdc, writer):
    with TemporaryDirectory() as name:
        folder = Path(name)
        held = [folder / path.name for path in (words, kdc)]
        for path, copy in zip((words, kdc), held, strict=True):
            copy.write_bytes(path.read_bytes())
        (folder / "closed").mkdir(mode=0o555)
        (folder / "link.kdc").symlink_to("closed/file")
        folder.chmod(0o755)
        (folder / "closed").chmod(0o755)
        (folder / "closed" / "file").write_text("mine")
        (folder / "closed").chmod(0o555)
        for target in (folder / "closed" / "out.kdc", folder / "link.kdc"):
            with without_rights():
                result = run(*WRITERS[writer](*held, target), "--force")
            assert (result.exit_code, result.stdout) == (1, "")
            assert f"cannot be written: the folder {folder}/closed is closed to you" in result.stderr
            assert result.stderr.count("\n") == 1


@of_writers(QUICK)
def test_a_file_that_is_replaced_keeps_its_permissions_and_its_link(run, words, kdc, tmp_path, writer):
    (tmp_path / "elsewhere").mkdir()
    file, link = tmp_path / "elsewhere" / "file", tmp_path / "link.kdc"
    file.write_text("mine")
    file.chmod(0o640)
    link.symlink_to("elsewhere/file")
    result = run(*WRITERS[writer](words, kdc, link))
    assert (result.exit_code, file.read_text()) == (1, "mine")
    assert result.stderr == f"error: {link}: exists already, --force replaces it\n"
    assert run(*WRITERS[writer](words, kdc, link), "--force").exit_code == 0
    assert link.readlink() == Path("elsewhere/file")
    assert file.read_bytes() != b"mine"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_the_demo_has_no_place_for_a_file_on_standard_output(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--out", "-", "--quiet")
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "--out takes the name of a file" in result.stderr


def linked(path: Path) -> Path:
    link = path.with_name("link")
    link.symlink_to(path.name)
    return link


def hard_linked(path: Path) -> Path:
    link = path.with_name("link")
    link.hardlink_to(path)
    return link


@pytest.mark.parametrize(
    "same", [Path, linked, hard_linked, lambda path: path.parent / "." / ".." / path.parent.name / path.name]
)
@of_writers(QUICK)
def test_the_input_is_never_replaced(run, words, kdc, writer, same):
    source = words if writer == "compress" else kdc
    before = source.read_bytes()
    result = run(*WRITERS[writer](words, kdc, same(source)), "--force")
    assert (result.exit_code, source.read_bytes()) == (1, before)
    assert "is the input itself" in result.stderr


def test_files_beside_the_input_are_input_too(run, words, tmp_path):
    np.save(tmp_path / "matrix.npy", kdcode.read(words).matrix)
    names, weights = tmp_path / "names.txt", tmp_path / "weights.txt"
    names.write_text("".join(f"word{row}\n" for row in range(60)))
    weights.write_text("".join(f"word{row} 1\n" for row in range(60)))
    for target in (names, weights):
        before = target.read_bytes()
        flags = ["--symbols", names, "--weights", weights, "--force"]
        result = run("compress", tmp_path / "matrix.npy", target, *FAST, *flags)
        assert (result.exit_code, target.read_bytes()) == (1, before)
        assert "is the input itself" in result.stderr


LONG_NAMES = [b"n" * 251, "é".encode() * 125 + b"n", b"\xff" * 251, b"\xf0\x9f\x92\xbe" * 62 + b"nnn"]


@pytest.mark.parametrize("stem", LONG_NAMES, ids=["ascii", "two bytes", "no UTF-8", "four bytes"])
def test_names_of_255_bytes_work(run, words, kdc, tmp_path, monkeypatch, stem):
    monkeypatch.chdir(tmp_path)
    out = Path(os.fsdecode(stem + b".kdc"))
    assert run(*WRITERS["compress"](words, kdc, out)).exit_code == 0
    table = kdcode.load(out).to_table()
    assert len(table) == 60
    for suffix in (".npy", ".csv"):
        again = out.with_suffix(suffix)
        result = run("expand", out, again)
        assert (result.exit_code, result.stderr) == (0, "")
        read = kdcode.read(again)
        assert list(read.symbols) == list(table.symbols)
        assert np.allclose(read.matrix, table.matrix)


@pytest.mark.parametrize("name", [name for name, known in FORMATS.items() if known.write is not None])
def test_folders_and_files_whose_names_are_not_utf_8(run, words, kdc, tmp_path, name):
    folder = tmp_path / os.fsdecode(b"folder \xff")
    folder.mkdir()
    source, target = (
        folder / os.fsdecode(b"\xfe.kdc"),
        folder / os.fsdecode(b"\xfe" + FORMATS[name].suffixes[0].encode()),
    )
    assert run(*WRITERS["compress"](words, kdc, source)).exit_code == 0
    result = run("expand", source, target, "--format", name, "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert str(target).replace("\udcfe", "\\udcfe").replace("\udcff", "\\udcff") in result.stdout
    again = folder / os.fsdecode(b"again \xfd.kdc")
    assert run("compress", target, again, *FAST, "--format", name).exit_code == 0
    assert run("verify", again, target, "--format", name, "--quiet").exit_code == 0


def test_names_beside_a_long_name_are_its_own():
    long = [os.fsdecode(stem + ending) for stem in LONG_NAMES for ending in (b".kdc", b".kde")]
    found = [beside(Path("folder", name), name, ".checkpoint") for name in long]
    assert len({path.name for path in found}) == len(long)
    assert {str(path.parent) for path in found} == {"folder"}
    assert all(len(os.fsencode(path.name)) <= 255 and path.name.endswith(".checkpoint") for path in found)
    assert beside(Path("a/b.kdc"), "b.kdc", ".checkpoint") == Path("a/b.kdc.checkpoint")
    just = "n" * 244
    assert beside(Path(just), just, ".checkpoint").name == f"{just}.checkpoint"


@pytest.mark.parametrize("name", [name for name, known in FORMATS.items() if known.write is not None])
def test_all_files_of_a_format_are_known_before_they_are_written(tmp_path, name):
    target = tmp_path / f"out{FORMATS[name].suffixes[0]}"
    known = written_files(target, format=name)
    kdcode.write(kdcode.VectorTable(["a", "b"], np.eye(2, dtype=np.float32)), target, format=name)
    assert sorted(known) == sorted(tmp_path.iterdir())
    assert known[0] == target
    assert written_files(target) == known


def test_files_of_a_format_that_is_only_read():
    with pytest.raises(OptionError, match="can only be read"):
        written_files("out.npz")


PAIRS = [suffix for known in FORMATS.values() if known.symbols_beside for suffix in known.suffixes]


@pytest.mark.parametrize("suffix", PAIRS)
@pytest.mark.parametrize("there", ["first", "second", "both"])
def test_expand_asks_before_it_overwrites_either_of_two_files(run, kdc, words, tmp_path, suffix, there):
    assert run(*WRITERS["compress"](words, kdc, tmp_path / "source.kdc")).exit_code == 0
    target = tmp_path / f"out{suffix}"
    symbols = tmp_path / "out.symbols.txt"
    files = {"first": [target], "second": [symbols], "both": [target, symbols]}[there]
    for file in files:
        file.write_text("mine")
        file.chmod(0o600)
    before = as_they_are(tmp_path)
    result = run("expand", tmp_path / "source.kdc", target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert as_they_are(tmp_path) == before
    exist = {"first": f"{target} exists", "second": f"{symbols} exists", "both": "both exist"}[there]
    assert result.stderr == (
        f"error: {target}: is written with its symbols in {symbols}; {exist} already, --force replaces "
        f"{'them' if there == 'both' else 'it'}\n"
    )
    assert run("expand", tmp_path / "source.kdc", target, "--force").exit_code == 0
    assert list(kdcode.read(target).symbols) == [f"word{row}" for row in range(60)]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


@of_writers()
@pytest.mark.parametrize("target", [".", "/", ".."])
def test_folders_without_a_name_are_refused(run, words, kdc, writer, target):
    result = run(*WRITERS[writer](words, kdc, target))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "is a folder" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("what", NO_TARGETS)
def test_the_second_file_is_checked_as_the_first(run, kdc, tmp_path, what):
    make, said = NO_TARGETS[what]
    make(tmp_path / "out.symbols.txt")
    before = as_they_are(tmp_path)
    result = run("expand", kdc, tmp_path / "out.npy", "--force")
    assert (result.exit_code, as_they_are(tmp_path)) == (1, before)
    assert said in result.stderr
    assert "out.symbols.txt" in result.stderr


@pytest.mark.parametrize("suffix", PAIRS)
def test_both_files_appear_or_none(tmp_path, suffix):
    """The symbols do not fit on the disk, which shows only when the last of them leave the buffer of the file."""
    table = kdcode.VectorTable(["a" * 3000, "b" * 3000], np.eye(2, dtype=np.float32))
    for file in written_files(tmp_path / f"out{suffix}"):
        file.write_text("mine")
    before, (soft, hard) = as_they_are(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(FileError, match="File too large"):
            kdcode.write(table, tmp_path / f"out{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert as_they_are(tmp_path) == before
    kdcode.write(table, tmp_path / f"out{suffix}")
    assert as_they_are(tmp_path) != before
