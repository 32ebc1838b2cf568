"""Locks end with their process, and what killed processes leave is removed; what a live one uses is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kdcode import file_locks
from kdcode.file_locks import locked, new_temporary, remove_leftovers
from kdcode.files import replacing

HOLD = """
import sys, time
from pathlib import Path
from kdcode.file_locks import locked, new_temporary
path = Path(sys.argv[1])
kept = new_temporary(path.parent, 0o666)
with locked(path):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path / "out"` and a temporary file."""
    words = [sys.executable, "-c", HOLD, tmp_path / "out"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_second_one_is_refused_and_told_who_has_it(tmp_path, holder):
    with pytest.raises(BlockingIOError, match=f"process {holder.pid} is using it"), locked(tmp_path / "out"):
        pytest.fail("it was given twice")
    with locked(tmp_path / "other"):
        pass


def test_a_lock_within_one_process_is_refused_too(tmp_path):
    refused = pytest.raises(BlockingIOError, match=f"process {os.getpid()}")
    with locked(tmp_path / "out"), refused, locked(tmp_path / "out"):
        pytest.fail("it was given twice")
    assert names(tmp_path) == []


def test_every_way_to_a_file_is_the_same_lock(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "out")
    with locked(tmp_path / "deep" / "out"), pytest.raises(BlockingIOError), locked(tmp_path / "link"):
        pytest.fail("it was given twice")


def test_a_killed_process_holds_nothing_and_leaves_nothing(tmp_path, holder):
    assert len(names(tmp_path)) == 2
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert len(names(tmp_path)) == 2
    with locked(tmp_path / "out"):
        assert len(names(tmp_path)) == 1
    assert names(tmp_path) == []


def test_what_a_live_process_uses_stays(tmp_path, holder):
    before = names(tmp_path)
    remove_leftovers(tmp_path)
    with replacing(tmp_path / "another") as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == sorted([*before, "another"])
    holder.kill()
    holder.wait()
    with replacing(tmp_path / "another") as temporary:
        temporary.write_text("newer")
    assert names(tmp_path) == ["another"]


def left_behind(folder: Path) -> Path:
    """A temporary file whose process is gone."""
    path, descriptor = new_temporary(folder, 0o666)
    os.close(descriptor)
    return path


def test_only_files_named_as_ours_are_removed(tmp_path):
    ours = left_behind(tmp_path)
    others = [".kdcode-notes.tmp", f"x{ours.name}", f"{ours.name}.bak", ".kdcode-0123.lock", "out.tmp"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / "real").touch()
    link = tmp_path / ours.name.replace(ours.name[17:25], "0" * 8)
    link.symlink_to(tmp_path / "real")
    fifo = tmp_path / ours.name.replace(ours.name[17:25], "1" * 8)
    os.mkfifo(fifo)
    linked_twice = left_behind(tmp_path)
    (tmp_path / "kept").hardlink_to(linked_twice)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*others, "real", "kept", link.name, fifo.name, linked_twice.name])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_stay(tmp_path):
    path = left_behind(tmp_path)
    os.chown(path, 12345, -1)
    remove_leftovers(tmp_path)
    assert path.exists()


def test_files_of_another_computer_stay_for_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr("kdcode.file_locks.platform.node", lambda: "elsewhere")
    path = left_behind(tmp_path)
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    assert path.exists()
    os.utime(path, (time.time() - 90_000,) * 2)
    remove_leftovers(tmp_path)
    assert not path.exists()


def test_a_file_system_without_locks_loses_nothing(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(file_locks.fcntl, "flock", refuse)
    path = left_behind(tmp_path)
    with locked(tmp_path / "out"), replacing(tmp_path / "out") as temporary:
        temporary.write_text("new")
    assert path.exists()  # nobody can tell whether it is being written
    assert names(tmp_path) == sorted([path.name, "out"])


def test_a_file_that_was_taken_for_left_behind_is_made_again(tmp_path, monkeypatch):
    """Between its making and its locking a temporary file looks like one that was left behind."""
    lock, calls = file_locks._lock, []

    def late(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            remove_leftovers(tmp_path)  # which locks it as well
        return lock(descriptor)

    monkeypatch.setattr(file_locks, "_lock", late)
    path, descriptor = new_temporary(tmp_path, 0o666)
    assert len(calls) == 3
    assert names(tmp_path) == [path.name]
    os.close(descriptor)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "no" / "out"):
        pytest.fail("there is no folder")
    remove_leftovers(tmp_path / "no")
