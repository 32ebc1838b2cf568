"""CPUs that a process may use: the quotas of control groups as the kernel writes them, of both versions."""

from __future__ import annotations

import math
import os

import pytest

from kdcode import cpus
from kdcode.cpus import available_cpus, cpu_quota, respect_quota


@pytest.fixture
def system(tmp_path):
    """Writes files of control groups, and gives the quota that follows from them."""

    def quota(own, **files):
        (tmp_path / "own").write_text(own)
        for name, content in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("cpu_max", "cpu.max")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return cpu_quota(tmp_path / "cgroup", tmp_path / "own")

    return quota


@pytest.mark.parametrize(
    ("content", "expected"),
    [("150000 100000\n", 1.5), ("max 100000\n", math.inf), ("50000 50000", 1.0), ("nonsense", math.inf)],
)
def test_version_2(system, content, expected):
    assert system("0::/pod/box\n", pod__box__cpu_max=content) == expected


def test_the_tightest_group_on_the_way_to_the_root_counts(system):
    files = {"pod__box__cpu_max": "max 100000", "pod__cpu_max": "300000 100000", "cpu_max": "400000 100000"}
    assert system("0::/pod/box\n", **files) == 3.0


def test_a_container_that_sees_the_path_of_its_host_has_its_limit_at_the_root(system):
    assert system("0::/docker/0123abc\n", cpu_max="200000 100000") == 2.0


def write_version_1(folder, quota, period=100_000):
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text(f"{period}\n")


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "expected"), [(250_000, 2.5), (-1, math.inf)])
def test_version_1(system, tmp_path, controllers, quota, expected):
    write_version_1(tmp_path / "cgroup" / controllers / "box", quota)
    assert system(f"5:memory:/box\n4:{controllers}:/box\n0::/\n") == expected


def test_version_1_where_both_controllers_are_one_folder_under_another_name(system, tmp_path):
    write_version_1(tmp_path / "cgroup" / "cpu", 100_000)
    assert system("4:cpu,cpuacct:/docker/0123abc\n") == 1.0


def test_other_controllers_are_not_asked(system, tmp_path):
    write_version_1(tmp_path / "cgroup" / "cpuacct", 100_000)
    assert system("4:cpuacct:/\n") == math.inf


def test_systems_without_control_groups_have_no_quota(tmp_path):
    assert cpu_quota(tmp_path / "cgroup", tmp_path / "none") == math.inf


@pytest.mark.parametrize(("scheduled", "quota", "expected"), [(8, math.inf, 8), (8, 1.5, 2), (8, 0.2, 1), (2, 6.0, 2)])
def test_the_smaller_of_both_is_available(monkeypatch, scheduled, quota, expected):
    monkeypatch.setattr(cpus, "_scheduled_cpus", lambda: scheduled)
    monkeypatch.setattr(cpus, "cpu_quota", lambda: quota)
    assert available_cpus() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU sets")
def test_a_process_that_is_held_to_one_cpu_has_one():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(before)])
    try:
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("quota", "threads"), [(math.inf, None), (2.0, "2")])
def test_libraries_are_told_of_a_quota_unless_they_were_told_otherwise(monkeypatch, quota, threads):
    monkeypatch.setattr(cpus, "_scheduled_cpus", lambda: 8)
    monkeypatch.setattr(cpus, "cpu_quota", lambda: quota)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    respect_quota()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == os.environ.get("MKL_NUM_THREADS") == threads
    assert os.environ["OMP_NUM_THREADS"] == "7"
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.pop(name, None)
