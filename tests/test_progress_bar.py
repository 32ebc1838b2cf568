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
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.1)
    with progress("learning", before="starting", after="measuring") as advance:
        time.sleep(0.3)
        advance(1, 2)
        time.sleep(0.3)
        advance(2, 2)
        time.sleep(0.3)
    phases = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert {phase: phases.count(phase) >= 2 for phase in ("starting", "learning", "measuring")} == {
        "starting": True, "learning": True, "measuring": True,
    }  # fmt: skip
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


def drawn_by(script, seconds=60.0):
    """What a script draws on a terminal, as (seconds since its start, text) pieces; its stdout has to be empty."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, env=environment, text=True
    )
    os.close(theirs)
    pieces, started = [], time.monotonic()
    while time.monotonic() < started + seconds:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            pieces.append((time.monotonic() - started, os.read(ours, 65536).decode(errors="replace")))
        except OSError:  # the terminal was closed with the process
            break
    os.close(ours)
    assert process.communicate(timeout=30) == ("", None)
    assert process.returncode == 0
    return pieces


BAR = """
import time
from kdcode.progress_bar import progress
with progress("learning", before="starting", after="measuring") as advance:
    time.sleep(1.2)
    for done, total in ((1, 10), (2, 30), (5, 12), (4, 12)):
        advance(done, total, "loss 0.5")
        time.sleep(0.6)
    advance(12, 12, "loss 0.4")
    time.sleep(0.6)
"""


def test_a_bar_on_a_terminal_lives_and_only_moves_forward():
    pieces = drawn_by(BAR)
    text = "".join(piece for _, piece in pieces)
    shares = [int(share) for share in re.findall(r"(\d+)%", text)]
    assert shares == sorted(shares)
    assert {10, 42, 100} <= set(shares)
    assert text.index("starting") < text.index("learning") < text.index("measuring")
    assert "loss 0.5" in text
    elapsed = [float(seconds) for seconds in re.findall(r"([\d.]+) s so far", text)]
    assert elapsed == sorted(elapsed)
    assert len(set(elapsed)) > 8, "the time that has passed moves between reports"
    first = pieces[0][0]
    assert pieces[1][0] < first + 1.0
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(pieces)]
    assert max(gaps) < 1.0


def test_python_shows_the_same_bar():
    script = (
        "import kdcode; from kdcode.data import glove_50d\n"
        "kdcode.compress(glove_50d().head(3000), codebook_size=16, code_length=9, effort='fast', progress=True)"
    )
    text = "".join(piece for _, piece in drawn_by(script))
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
