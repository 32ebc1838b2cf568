import os
import socket
import stat
from pathlib import Path

import numpy as np
import pytest

import kdcode
from kdcode.codec import CodewordSpec, make_codec
from kdcode.data import glove_50d
from kdcode.errors import FileError
from kdcode.files import replaceable, replacing


def test_the_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "out"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(target) as temporary:
        temporary.write_text("half \ud800", encoding="utf-8")
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "out") as temporary:
        temporary.write_text("new")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "out")}
    assert len(modes) == 1


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "real")
    with replacing(tmp_path / "link") as temporary:
        assert temporary.parent == tmp_path / "deep"
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "real").read_text() == "new"


def test_a_long_name_is_no_trouble(tmp_path):
    with replacing(tmp_path / ("n" * 255)) as temporary:
        temporary.write_text("new")
    assert os.listdir(tmp_path) == ["n" * 255]  # noqa: PTH208


def test_names_and_bytes_are_on_the_disk_when_the_block_ends(tmp_path, monkeypatch):
    """The file before the name, and the name at the end."""
    order = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor):
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *paths: order.append("rename") or replace(*paths))
    with replacing(tmp_path / "out") as temporary:
        temporary.write_text("new")
    assert order == ["file", "rename", "folder"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444, 0o755])
def test_the_permissions_of_a_replaced_file_are_kept(tmp_path, mode):
    target = tmp_path / "out"
    target.write_text("old")
    target.chmod(mode)
    with replacing(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # a private file is private while it is written
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@needs_root
def test_owner_and_group_of_a_replaced_file_are_kept(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    os.chown(target, 12345, 23456)
    target.chmod(0o4750)
    with replacing(target) as temporary:
        temporary.write_text("new")
    found = target.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o4750)


@needs_root
def test_another_group_is_given_no_more_than_everybody(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.write_text("old")
    os.chown(target, 12345, 23456)
    target.chmod(0o4664)

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def pipe(path):
    os.mkfifo(path)


def dangling(path):
    path.symlink_to(path.with_name("nowhere"))


def circle(path):
    path.symlink_to(path.with_name("back"))
    path.with_name("back").symlink_to(path)


def link_to_device(path):
    path.symlink_to("/dev/null")


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


NO_FILES = {
    pipe: "it is a pipe",
    dangling: "it is a symbolic link to '.*nowhere', which does not exist",
    circle: "its symbolic links lead in a circle",
    link_to_device: "it is a device",
    unix_socket: "it is a socket",
    os.mkdir: "it is a folder",
}


@pytest.mark.parametrize(("make", "reason"), NO_FILES.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_what_is_no_file_is_never_replaced(tmp_path, monkeypatch, make, reason):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    target = tmp_path / "out"
    make(target if make is not unix_socket else target.relative_to(tmp_path))
    before = {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()}
    with pytest.raises(OSError, match=reason), replacing(target):
        pytest.fail("it is being written")
    with pytest.raises(OSError, match=reason):
        replaceable(target)
    with pytest.raises(FileError):
        kdcode.write(glove_50d().head(20), target, format="glove")
    codec = make_codec(CodewordSpec.named("linear", 2, 2, 1), {"codebook": np.ones((1, 2, 2))})
    with pytest.raises(FileError):
        kdcode.save(kdcode.CodedTable.from_codes(None, np.array([[0], [1]]), codec), target)
    assert {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()} == before


def test_a_device_is_never_replaced():
    with pytest.raises(OSError, match="it is a device"):
        replaceable(Path("/dev/null"))


def test_what_fails_below_a_file_keeps_its_own_reason(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        replaceable(tmp_path / "file" / "out")
