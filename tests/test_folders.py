"""Folders that appear whole or not at all."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kdcode.errors import FileError, KdcodeError, MissingFileError
from kdcode.files import replacing
from kdcode.folders import check_new_folder, new_folder


def listed(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_it_appears_when_the_block_ends(tmp_path):
    with new_folder(tmp_path / "out") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("1")
        assert not (tmp_path / "out").exists()
    assert listed(tmp_path) == ["out", "out/inner", "out/inner/a"]
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_vanishes_when_the_block_fails(tmp_path, error):
    def fill():
        with new_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("1")
            raise error

    with pytest.raises(error):
        fill()
    assert listed(tmp_path) == []


def test_a_full_disk_is_a_refusal_that_names_the_folder(tmp_path):
    with pytest.raises(FileError, match=f"{tmp_path}/out: cannot be written: No space"), new_folder(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert listed(tmp_path) == []


def test_an_empty_folder_is_taken_and_others_stay(tmp_path):
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty") as folder:
        (folder / "a").write_text("1")
    assert listed(tmp_path) == ["empty", "empty/a"]
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("empty", "file", "link"):
        for call in (check_new_folder, lambda path: new_folder(path).__enter__()):
            with pytest.raises(KdcodeError, match=f"{name}: is there already; expected a new folder, or an empty one"):
                call(tmp_path / name)
    with pytest.raises(MissingFileError, match="there is no folder"):
        check_new_folder(tmp_path / "none" / "out")
    assert listed(tmp_path) == ["empty", "empty/a", "file", "link"]


def test_a_folder_is_replaced_on_request(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    with new_folder(tmp_path / "out", replace=True) as folder:
        (folder / "new").write_text("y")
        assert (tmp_path / "out" / "old").exists()
    assert listed(tmp_path) == ["out", "out/new"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(KdcodeError, match="is there already"):
        check_new_folder(tmp_path / "file", replace=True)


def test_the_old_folder_stays_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    rename = Path.rename

    def refusing(self, target):
        if self.name.endswith(".tmp"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    def replaced():
        with new_folder(tmp_path / "out", replace=True) as folder:
            (folder / "new").write_text("y")

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(FileError, match="No space left"):
        replaced()
    assert listed(tmp_path) == ["out", "out/old"]


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path):
    script = """
import sys, time
from pathlib import Path
from kdcode.folders import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("x")
    print("made", flush=True)
    time.sleep(60)
"""
    running = subprocess.Popen([sys.executable, "-c", script, tmp_path / "out"], stdout=subprocess.PIPE)
    running.stdout.readline()
    before = listed(tmp_path)
    assert len(before) == 2
    with new_folder(tmp_path / "mine"):
        pass
    assert set(before) <= set(listed(tmp_path))
    running.kill()
    running.wait()
    running.stdout.close()
    with replacing(tmp_path / "file") as temporary:  # any write to the folder removes it
        temporary.write_text("x")
    assert listed(tmp_path) == ["file", "mine"]


def test_a_folder_of_somebody_with_such_a_name_on_another_computer_stays_for_a_day(tmp_path):
    left = tmp_path / ".kdcode-00000000-0123456789abcdef.tmp"
    left.mkdir()
    with new_folder(tmp_path / "a"):
        pass
    assert left.exists()
    old = time.time() - 100_000
    os.utime(left, (old, old))
    with new_folder(tmp_path / "b"):
        pass
    assert not left.exists()


def test_a_folder_is_replaced_where_this_is_asked_for(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("1")
    with new_folder(tmp_path / "out", replace=True) as folder:
        (folder / "new").write_text("2")
        assert (tmp_path / "out" / "old").read_text() == "1"
    assert listed(tmp_path) == ["out", "out/new"]

    def fill():
        with new_folder(tmp_path / "out", replace=True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert listed(tmp_path) == ["out", "out/new"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="is there already"):
        check_new_folder(tmp_path / "file", replace=True)
