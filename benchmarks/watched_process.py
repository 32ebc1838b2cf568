"""A command with the processes that it starts: how long they take, and how much memory, each and all together."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 0.2


@dataclass(frozen=True)
class Watched:
    """What came of a command.

    Args:
        output: what it printed.
        seconds: on the clock.
        largest_mb: the most resident memory that any one of its processes ever had.
        total_mb: the most that all had together at one time, pages that they share counted once.
    """

    output: str
    seconds: float
    largest_mb: float
    total_mb: float


def watched(command: list[str], environment: dict[str, str] | None = None) -> Watched:
    """Run a command to its end and look at its processes several times a second; Linux alone tells their memory.

    Raises:
        CalledProcessError: it failed.
    """
    largest, total = [0], [0]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ) as process:
        is_over = threading.Event()

        def look() -> None:
            while not is_over.wait(_SECONDS):
                family = _family(process.pid)
                largest[0] = max([largest[0], *(_kilobytes(Path(f"/proc/{pid}/status"), "VmHWM") for pid in family)])
                total[0] = max(total[0], sum(_kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in family))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        output = process.communicate()[0]
        is_over.set()
        watcher.join()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return Watched(output, seconds, largest[0] / 1024, total[0] / 1024)


def _family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):  # it has just ended
                continue
    family, before = {pid}, 0
    while len(family) != before:
        before = len(family)
        family |= {child for child, parent in parents.items() if parent in family}
    return family


def _kilobytes(file: Path, field: str) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
