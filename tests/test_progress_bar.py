"""Progress: a share that only rises, a time left that only falls, and something that moves all the while."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode import progress_bar as module
from kdcode.progress_bar import ProgressState, TimeLeft, clock, progress

PATIENCE = 300
"""Seconds after which a test gives up on something that never appears."""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.23, "4.2 s"), (59.4, "59 s"), (59.7, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


@pytest.fixture
def clock_hand(monkeypatch):
    """The time that the module sees, moved by hand."""
    hand = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: hand[0])
    return hand


def test_a_line_every_ten_seconds_where_there_is_no_terminal(clock_hand, capsys):
    with progress("learning") as advance:
        for done in range(40, 71):  # resumed at 40; one step a second
            advance(done, 80, "loss 0.5")
            clock_hand[0] += 1
    with progress("reading") as advance:
        clock_hand[0] += 11
        advance(5000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "learning: 62%, 10 s, 30 s left, loss 0.5",
        "learning: 75%, 20 s, 20 s left, loss 0.5",
        "learning: 88%, 30 s, 10 s left, loss 0.5",
        "reading: 5,000, 11 s so far",
    ]


def test_lines_go_on_while_a_step_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.02)
    phases = []

    def until_two_lines_of(phase):
        given_up = time.monotonic() + PATIENCE
        while phases.count(phase) < 2 and time.monotonic() < given_up:
            time.sleep(0.01)
            phases.extend(line.split(":")[0] for line in capsys.readouterr().err.splitlines())
        assert phases.count(phase) >= 2

    with progress("learning", before="starting", after="measuring") as advance:
        until_two_lines_of("starting")
        advance(1, 2)
        until_two_lines_of("learning")
        advance(2, 2)
        until_two_lines_of("measuring")
    assert phases == sorted(phases, key=["starting", "learning", "measuring"].index)


def test_quiet_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(module, "_LINE_SECONDS", 0)
    with progress("learning", quiet=True) as advance:
        advance(1, 2)
    assert capsys.readouterr().err == ""


def test_a_share_that_falls_is_no_news():
    state = ProgressState("planning")
    shares = []
    for done, total in [(1, 10), (2, 30), (3, 12), (3, 40), (12, 12), (0, 12)]:
        state.update(done, total, "")
        shares.append(state.share)
    assert shares == [0.1, 0.1, 0.25, 0.25, 1.0, 1.0]


def seconds_of(text):
    """The seconds that `clock` wrote, to its precision."""
    units = {"s": 1, "min": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (s|min|h)", text))


@given(
    st.lists(
        st.tuples(st.floats(0.001, 200), st.floats(0, 0.2), st.booleans()), min_size=2, max_size=40
    )  # seconds that pass, the share that is done meanwhile, and whether it is reported
)
def test_the_time_left_never_grows(events):
    left, now, share, shown = TimeLeft(), 1000.0, 0.0, []
    for seconds, more, is_reported in events:
        now, share = now + seconds, min(1.0, share + more)
        if is_reported:
            left.update(share, now)
        if text := left.text(now):
            shown.append(seconds_of(text))
    assert all(later <= earlier for earlier, later in pairwise(shown))


def test_nothing_is_said_before_there_is_anything_to_go_by():
    left = TimeLeft()
    assert left.text(0.0) == ""
    left.update(0.5, 100.0)  # resumed here: how long it took is not known
    left.update(0.50001, 100.1)
    assert left.text(100.1) == ""
    left.update(0.6, 110.0)
    assert left.text(110.0) == "40 s left"


def test_a_slow_start_does_not_count():
    left = TimeLeft()
    for step in range(1, 6):
        left.update(step / 10, 60.0 + step)
    assert left.text(65.0) == "5.0 s left"


def test_the_time_left_counts_down_during_a_step_but_no_further_than_its_end():
    left = TimeLeft()
    for step in range(5):
        left.update(step / 10, 10.0 * step)
    assert [left.text(40.0 + seconds) for seconds in (0, 5, 10, 300)] == [
        "1 min 0 s left", "55 s left", "50 s left", "50 s left",
    ]  # fmt: skip


def test_where_work_slows_down_the_time_left_is_a_lower_bound():
    left = TimeLeft()
    left.update(0.0, 0.0)
    left.update(0.5, 10.0)
    assert left.text(10.0) == "10 s left"
    left.update(0.6, 100.0)
    assert left.text(100.0) == "more than 10 s left"
    left.update(0.99, 101.0)
    assert left.text(101.0) == "1.0 s left"


class Terminal:
    """A script whose standard error is a terminal, and what it has drawn so far."""

    def __init__(self, script):
        self.drawn = ""
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": theirs}
        self.process = subprocess.Popen([sys.executable, "-c", script], **pipes, env=environment, text=True)
        os.close(theirs)

    def read(self):
        """Wait for the next thing it draws, and say whether there was one; there is none after its end."""
        if not select.select([self._ours], [], [], PATIENCE)[0]:
            self.process.kill()
            pytest.fail(f"nothing was drawn for {PATIENCE} s after {self.drawn[-200:]!r}")
        try:
            self.drawn += os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # the terminal was closed with the process
            return False
        return True

    def read_to_the_end(self):
        """All that it draws; its standard output has to be empty."""
        while self.read():
            pass
        os.close(self._ours)
        assert self.process.communicate() == ("", None)
        assert self.process.returncode == 0, self.drawn[-2000:]
        return self.drawn


BAR = """
import sys
from kdcode.progress_bar import progress
with progress("learning", before="starting", after="measuring") as advance:
    sys.stdin.readline()
    for done, total in ((1, 10), (2, 30), (5, 12), (4, 12)):
        advance(done, total, "loss 0.5")
        sys.stdin.readline()
    advance(12, 12, "loss 0.4")
    sys.stdin.readline()
"""


def elapsed_in(text):
    return [float(seconds) for seconds in re.findall(r"([\d.]+) s(?: so far|,)", text)]


def test_a_bar_on_a_terminal_lives_and_only_moves_forward():
    terminal = Terminal(BAR)
    for shown in ("starting", "10%", "10%", "42%", "42%", "100%"):
        begun = len(terminal.drawn)
        while shown not in terminal.drawn[begun:] or len(set(elapsed_in(terminal.drawn[begun:]))) < 3:
            assert terminal.read(), "the time that has passed moves while no step is reported"
        terminal.process.stdin.write("the next step\n")
        terminal.process.stdin.flush()
    text = terminal.read_to_the_end()
    shares = [int(share) for share in re.findall(r"(\d+)%", text)]
    assert shares == sorted(shares)
    assert set(shares) == {10, 42, 100}
    assert text.index("starting") < text.index("learning") < text.index("measuring")
    assert "loss 0.5" in text
    assert elapsed_in(text) == sorted(elapsed_in(text))


def test_python_shows_the_same_bar():
    script = (
        "import kdcode; from kdcode.data import glove_50d\n"
        "kdcode.compress(glove_50d().head(3000), codebook_size=16, code_length=9, effort='fast', progress=True)"
    )
    text = Terminal(script).read_to_the_end()
    shares = [int(share) for share in re.findall(r"(\d+)%", text)]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert text.index("learning (starting)") < text.index("loss 0.")
    assert "learning (measuring)" in text


def test_where_steps_differ_no_time_left_is_told(clock_hand):
    told, untold = ProgressState("learning"), ProgressState("planning", with_time_left=False)
    for done in range(3):
        clock_hand[0] += 10
        told.update(done, 10, "")
        untold.update(done, 10, "")
    assert told.facts() == ["20%", "30 s", "1 min 20 s left"]
    assert untold.facts() == ["20%", "30 s so far"]
    told.update(10, 10, "")
    assert told.facts() == ["100%", "30 s so far"]  # what comes after the last step takes a time of its own
