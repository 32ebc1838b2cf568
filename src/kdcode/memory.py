"""How much memory this process may use: what the machine has free, and the limit of its container."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_MEMINFO = Path("/proc/meminfo")
_NO_LIMIT = 1 << 60
"""Control groups of version 1 say that there is no limit by a number near 2^63."""


def available_memory(meminfo: Path = _MEMINFO, cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> int:
    """Bytes that can be allocated now without swapping, as far as the system tells.

    Args:
        meminfo: where Linux tells of the memory of the machine.
        cgroups: where control groups are mounted.
        own: the file that names the groups of this process.
    """
    return int(min(_free_on_machine(meminfo), _free_in_container(cgroups, own)))


def _free_on_machine(meminfo: Path) -> float:
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):  # not Linux: half of all memory is a careful guess
        pages, page = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
        return pages * page / 2


def _free_in_container(cgroups: Path, own: Path) -> float:
    """What the control groups of this process leave it, of version 1 or 2; infinity where there is no limit."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return math.inf
    free = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mounts, names = [cgroups, cgroups / "unified"], ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            mounts, names = [cgroups / "memory"], ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (mount / part for mount in mounts for part in (group, *group.parents)):
            free = min(free, _left_in(folder, *names))
    return free


def _left_in(folder: Path, limit: str, used: str) -> float:
    try:
        allowed = (folder / limit).read_text(encoding="ascii").strip()
        if allowed == "max" or int(allowed) >= _NO_LIMIT:
            return math.inf
        return max(0, int(allowed) - int((folder / used).read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such group here
        return math.inf
