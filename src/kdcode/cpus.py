"""How many CPUs this process may use: those of the machine, of its CPU set, and of its container's quota."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_LIBRARIES = ("OMP", "MKL", "OPENBLAS")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def available_cpus() -> int:
    """CPUs that this process may keep busy, at least 1.

    A container with a quota of 1.5 CPUs has 2: threads that the system pauses now and then still use all of the quota.
    """
    return max(1, math.ceil(min(_scheduled_cpus(), cpu_quota())))


def respect_quota() -> None:
    """Tell libraries with threads of their own about the quota of this container, before they are imported.

    They count the CPUs of the machine. Threads beyond the quota only wait for each other.
    """
    if cpu_quota() < _scheduled_cpus():
        for library in _LIBRARIES:
            os.environ.setdefault(f"{library}_NUM_THREADS", str(available_cpus()))


def cpu_quota(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> float:
    """CPUs that Linux control groups allow, of version 1 or 2; infinity where there is no limit.

    Args:
        cgroups: where control groups are mounted.
        own: the file that names the groups of this process.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return math.inf
    return min((quota for line in lines for quota in _quotas(cgroups, line)), default=math.inf)


def _scheduled_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(cgroups: Path, line: str) -> Iterator[float]:
    """The limits along one line of /proc/self/cgroup, from the process's own group up to the root.

    A container without a namespace of its own sees the host's path there, and its own limits at the root.
    """
    _, controllers, path = line.split(":", 2)
    if not controllers:
        mounts = [cgroups, cgroups / "unified"]
    elif "cpu" in controllers.split(","):
        mounts = [cgroups / controllers, cgroups / "cpu"]
    else:
        return
    group = Path(path.lstrip("/"))
    for folder in (mount / part for mount in mounts for part in (group, *group.parents)):
        try:
            yield _quota(folder, is_unified=not controllers)
        except (OSError, ValueError):  # no such group here, or no limit that can be read
            continue


def _quota(folder: Path, *, is_unified: bool) -> float:
    """The limit of one group: `cpu.max` holds "quota period", in microseconds; before, there was a file for each."""
    if is_unified:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = ((folder / name).read_text(encoding="utf-8").strip() for name in names)
    if quota in ("max", "-1"):
        return math.inf
    return int(quota) / int(period) if int(period) > 0 else math.inf
