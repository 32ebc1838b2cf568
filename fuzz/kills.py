"""Kills `kdcode compress` with SIGKILL and runs it again.

It is killed before and after every fsync, rename and unlink that it calls, and at random moments; now and then several
times in a row. At every moment OUT must be what it was before, or the whole result. The same command, run once more,
must end with the bytes of a run that nobody disturbed, and leave nothing in the folder but the table and OUT.

Two cases of three are at a call, until all of them were tried; the others are at random moments.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from harness import MIB, Case, CaseLimits, WrongError, main

from kdcode.cli import main as command
from kdcode.learning import (
    Checkpoint,  # torch is imported once, and there in every process that is forked from this one
)

COUNT = 420
LIMITS = CaseLimits(seconds=60.0, wall_seconds=300.0, memory=1024 * MIB)

OLD = b"what was there before"
OLD_MODE = 0o640

CALLS = ("fsync", "replace", "unlink")
"""Functions of `os` that the process is killed at."""


@dataclass(frozen=True)
class Scenario:
    """A command, and what it finds.

    Attributes:
        flags: of the command.
        replaces: whether OUT is there before, and is to be replaced.
    """

    flags: tuple[str, ...]
    replaces: bool = False


_CODES = ("-K", "4", "-D", "9", "--effort", "fast")
SCENARIOS = {
    "learning": Scenario(_CODES),
    "planning": Scenario(("--size", "6x", "--effort", "fast")),
    "replacing": Scenario((*_CODES, "--seed", "1", "--force"), replaces=True),
}


@dataclass(frozen=True)
class Place:
    """Where a process is killed: before or after the call of that number, from 0."""

    scenario: str
    call: int
    name: str
    when: str


@dataclass(frozen=True)
class Undisturbed:
    """A run to its end: the bytes of OUT, the calls that it made, and how long it took."""

    result: bytes
    calls: tuple[str, ...]
    seconds: float


def check(case: Case) -> str:
    """Kill one run, or several runs in a row, and see that the next one ends well."""
    place = place_of(case.number)
    name = place.scenario if place else case.random.choice(list(SCENARIOS))
    whole, folder = undisturbed(name), case.folder / "files"
    prepare(folder, name)
    if place is not None:
        if not run(folder, name, lambda: kill_at(place.call, place.when)):
            raise WrongError(f"{place}: the run ended before it came to this call")
        check_target(folder, name, whole.result)
        outcome = f"{place.scenario}: {place.when} {place.name}"
    else:
        is_killed = False
        for _ in range(case.random.choice((1, 1, 1, 2, 3))):
            is_killed |= run(folder, name, kill_after=case.random.random() * whole.seconds)
            check_target(folder, name, whole.result)
        outcome = f"{name}: at a random moment" if is_killed else f"{name}: ended before it was killed"
    check_repeated(folder, name, whole.result)
    return outcome


def check_target(folder: Path, name: str, result: bytes) -> None:
    """OUT is what it was before the run, or the whole result."""
    target = folder / "out.kdc"
    found = target.read_bytes() if target.exists() else None
    before = OLD if SCENARIOS[name].replaces else None
    if found not in (before, result):
        raise WrongError(f"OUT is neither old nor new, it has {len(found or b'')} bytes")
    if found is not None and SCENARIOS[name].replaces and stat.S_IMODE(target.stat().st_mode) != OLD_MODE:
        raise WrongError(f"OUT has other permissions: {stat.S_IMODE(target.stat().st_mode):o}")


def check_repeated(folder: Path, name: str, result: bytes) -> None:
    """The same command ends with the same bytes, and nothing else is left."""
    target = folder / "out.kdc"
    is_complete = target.exists() and target.read_bytes() == result
    run(folder, name)
    said = (folder.parent / "said").read_text(encoding="utf-8")
    status = (folder.parent / "status").read_text(encoding="utf-8")
    is_refused = status == "1" and "exists already, --force replaces it" in said
    if status != "0" and not (is_refused and is_complete):
        raise WrongError(f"the same command ended with {status}: {said}")
    if target.read_bytes() != result:
        raise WrongError("the same command gave other bytes")
    check_target(folder, name, result)
    left = {path.name for path in folder.iterdir()} - {"table.txt", "out.kdc"}
    if left:
        raise WrongError(f"left behind: {sorted(left)}")


def prepare(folder: Path, name: str) -> None:
    """A folder with a table, and an OUT that is to be replaced."""
    folder.mkdir()
    numbers = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    lines = (f"word{row} {' '.join(map(str, numbers[row]))}\n" for row in range(len(numbers)))
    (folder / "table.txt").write_text("".join(lines), encoding="utf-8")
    if SCENARIOS[name].replaces:
        (folder / "out.kdc").write_bytes(OLD)
        (folder / "out.kdc").chmod(OLD_MODE)


def run(folder: Path, name: str, before: Callable[[], object] | None = None, kill_after: float | None = None) -> bool:
    """Run the command of a scenario in a process of its own; says whether it was killed.

    What it said and its exit status are written beside the folder.

    Args:
        folder: with the table.
        name: of the scenario.
        before: called in the process before the command.
        kill_after: seconds after which it is killed.
    """
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = _command(folder, SCENARIOS[name].flags, before)
        finally:
            (folder.parent / "status").write_text(str(status), encoding="utf-8")
            os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)  # nobody has waited for it, so the number is still its own
    ended = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL


def _command(folder: Path, flags: tuple[str, ...], before: Callable[[], object] | None) -> int:
    """`kdcode compress` as it is, but that a checkpoint is due after every step; returns its exit status."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the harness's own
    said = os.open(folder.parent / "said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    sys.stdout = sys.stderr = open(said, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - the process ends soon
    Checkpoint.due = lambda self: True  # type: ignore[method-assign]
    if before is not None:
        before()
    try:
        command(["compress", str(folder / "table.txt"), str(folder / "out.kdc"), *flags], prog_name="kdcode")
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.stdout.flush()
    return 0


def kill_at(number: int, when: str) -> None:
    """Make the process kill itself before or after a call."""

    def on_call(count: int, _name: str, now: str) -> None:
        if (count, now) == (number, when):
            os.kill(os.getpid(), signal.SIGKILL)

    _watch_calls(on_call)


def _watch_calls(on_call: Callable[[int, str, str], None]) -> None:
    """Have a function called with the number of each call of `CALLS`, its name, and "before" or "after"."""
    count = 0

    def watched(name: str, plain: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            nonlocal count
            number, count = count, count + 1
            on_call(number, name, "before")
            try:
                return plain(*args, **named)
            finally:
                on_call(number, name, "after")

        return call

    for name in CALLS:
        setattr(os, name, watched(name, getattr(os, name)))


@cache
def undisturbed(name: str) -> Undisturbed:
    """A run of a scenario that nobody kills."""
    with TemporaryDirectory(prefix="kdcode-fuzz-") as base:
        folder = Path(base, "files")
        prepare(folder, name)
        log = Path(base, "calls")

        def write_calls() -> None:
            stream = log.open("a", encoding="utf-8")

            def on_call(_number: int, called: str, when: str) -> None:
                if when == "before":
                    stream.write(f"{called}\n")
                    stream.flush()

            _watch_calls(on_call)

        started = time.monotonic()
        run(folder, name, write_calls)
        seconds = time.monotonic() - started
        calls = tuple(log.read_text(encoding="utf-8").split())
        return Undisturbed((folder / "out.kdc").read_bytes(), calls, seconds)


@cache
def places() -> tuple[Place, ...]:
    """All places at which a process may be killed, in an order that is mixed and always the same."""
    found = [
        Place(name, number, called, when)
        for name in SCENARIOS
        for number, called in enumerate(undisturbed(name).calls)
        for when in ("before", "after")
    ]
    Random(0).shuffle(found)
    return tuple(found)


def place_of(number: int) -> Place | None:
    """The place of a case; None for a random moment."""
    turn, rest = divmod(number, 3)
    at = 2 * turn + rest
    return places()[at] if rest < 2 and at < len(places()) else None


if __name__ == "__main__":
    raise SystemExit(main("kills", check, count=COUNT, limits=LIMITS, packages=("numpy", "torch")))
