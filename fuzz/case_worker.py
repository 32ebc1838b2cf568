"""One case at a time in a process of its own: what came of it, how long it took, and how much memory.

The process that runs cases may be lost to a case: it may crash, or never return. `harness.py` watches for that.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType

MIB = 1 << 20
_STATUS = Path("/proc/self/status")
_RESET_PEAK = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Case:
    """What a fuzzer makes one case from. The same seed and number give the same case.

    Attributes:
        number: from 0 to the count of cases.
        random: where every choice of the case comes from.
        folder: an empty folder for its files, which is emptied afterwards.
    """

    number: int
    random: Random
    folder: Path


Check = Callable[[Case], str]
"""Makes and tries one case, and says in a word or two what came of it ("refused", "same vectors").

It raises `WrongError` where something wrong was accepted. Any other exception that escapes it is a failure too. It is a
function of a module, because it is handed to other processes by its name.
"""


class WrongError(Exception):
    """What is tried did something that it must not do, such as accepting a damaged file."""


class _TooLongError(BaseException):
    """No `except Exception` of what is tried may stop it."""


@dataclass(frozen=True)
class CaseLimits:
    """What a case may take.

    Attributes:
        seconds: of CPU time, which other work on the machine does not change.
        wall_seconds: of time on the clock, for a case that waits for something, or does not return from C.
        memory: bytes by which the memory of its process may grow.
    """

    seconds: float = 5.0
    wall_seconds: float = 60.0
    memory: int = 256 * MIB


@dataclass(frozen=True)
class CaseResult:
    """What came of a case.

    Attributes:
        number: of the case.
        kind: what its check returned, or the kind of failure.
        detail: more about a failure, empty otherwise.
        failed: whether it is a failure.
        seconds: of CPU time.
        memory: bytes by which the memory of the process grew at most.
    """

    number: int
    kind: str
    detail: str = ""
    failed: bool = False
    seconds: float = 0.0
    memory: int = 0


def make_case(seed: int, number: int, folder: Path) -> Case:
    """The case of a number; every case has a random generator of its own."""
    return Case(number, Random(f"{seed}/{number}"), folder)


class _PeakMemory:
    """How far the resident memory of this process rises above where it was.

    Linux tells the peak since it was last reset. Elsewhere only the peak of the whole life of the process is known, so
    a case is charged with what it adds to that.
    """

    def __init__(self) -> None:
        self.is_exact = _RESET_PEAK.exists()
        self._before = 0

    def start(self) -> None:
        if self.is_exact:
            _RESET_PEAK.write_bytes(b"5")
            self._before = _status("VmRSS")
        else:
            self._before = _highest_ever()

    def growth(self) -> int:
        return max(0, (_status("VmHWM") if self.is_exact else _highest_ever()) - self._before)


def how_memory_is_measured() -> str:
    """One line for the results."""
    if _RESET_PEAK.exists():
        return "growth of peak resident memory during the case; allocations of twice the limit fail"
    return "growth of the process's peak resident memory over all cases before"


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def _highest_ever() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _limit_allocations(memory: int) -> None:
    """Make allocations far beyond the limit fail, also those whose memory is never touched, and spare the machine."""
    if _STATUS.exists():
        resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + 2 * memory, resource.RLIM_INFINITY))


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _TooLongError


def _emptied(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _where(error: BaseException, folder: Path) -> str:
    """The error and the lines it came through, without the paths of this machine."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-7:-1])
    text = str(error).replace(str(folder), "FOLDER")
    return f"{type(error).__name__}: {text[:500]} ({places})"


def _tried(check: Check, case: Case, limits: CaseLimits) -> tuple[str, str, bool]:
    """What came of one case: kind, detail, and whether it failed."""
    signal.signal(signal.SIGPROF, _stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, limits.seconds, 0.5)  # again, should a finalizer swallow the first
        try:
            return check(case), "", False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _TooLongError as error:
        return "hang", f"more than {limits.seconds:g} s of CPU time: {_where(error, case.folder)}", True
    except MemoryError as error:
        return "memory", _where(error, case.folder), True
    except WrongError as error:
        return "wrong", _where(error, case.folder), True
    except Exception as error:
        return f"uncaught {type(error).__name__}", _where(error, case.folder), True


def run_one(check: Check, case: Case, limits: CaseLimits) -> CaseResult:
    """Run one case in this process."""
    peak = _PeakMemory()
    peak.start()
    start = time.process_time()
    kind, detail, failed = _tried(check, case, limits)
    seconds, memory = time.process_time() - start, peak.growth()
    if memory > limits.memory and not failed:
        kind, failed = "memory", True
        detail = f"{memory / MIB:.0f} MiB, of {limits.memory / MIB:.0f} MiB that are allowed"
    return CaseResult(case.number, kind, detail, failed, seconds, memory)


def work(connection: Connection, check: Check, seed: int, folder: Path, limits: CaseLimits) -> None:
    """Run the cases whose numbers arrive, and answer with a result for each, until None arrives or nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _limit_allocations(limits.memory)
    gc.collect()
    try:
        connection.send(None)  # ready: modules are imported
        while (number := connection.recv()) is not None:
            result = run_one(check, make_case(seed, number, folder), limits)
            _emptied(folder)
            connection.send(result)
    except (EOFError, OSError):  # nobody asks any more
        return
