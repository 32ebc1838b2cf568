import os
import pty
import subprocess
import sys

import pytest

from kdcode.cli import progress as module
from kdcode.cli.progress import clock, progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.23, "4.2 s"), (59.4, "59 s"), (59.7, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_a_line_every_ten_seconds_where_there_is_no_terminal(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with progress("learning") as advance:
        for done in range(40, 71):  # resumed at 40; one step a second
            advance(done, 80, "loss 0.5")
            now += 1
    with progress("reading") as advance:
        now += 11
        advance(5000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "learning: 62%, 30 s left, loss 0.5",
        "learning: 75%, 20 s left, loss 0.5",
        "learning: 88%, 10 s left, loss 0.5",
        "reading: 5,000",
    ]


def test_quiet_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(module, "_LINE_SECONDS", 0)
    with progress("learning", quiet=True) as advance:
        advance(1, 2)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal():
    script = "from kdcode.cli.progress import progress\nwith progress('learning') as advance: advance(5, 5, 'loss 0.5')"
    ours, theirs = pty.openpty()
    process = subprocess.run(
        [sys.executable, "-c", script],
        stderr=theirs,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "TERM": "xterm"},
    )
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    os.close(theirs)
    assert process.stdout == b""
    assert "learning" in drawn
    assert "100%" in drawn
    assert "loss 0.5" in drawn
