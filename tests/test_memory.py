"""How much memory is free, read from files as Linux writes them."""

import os

import pytest

from kdcode.memory import available_memory

GB = 1 << 30


@pytest.fixture
def system(tmp_path):
    """A machine with 8 GiB free, whose control groups are in a folder."""
    (tmp_path / "meminfo").write_text(f"MemTotal: {16 * GB >> 10} kB\nMemAvailable: {8 * GB >> 10} kB\n")
    (tmp_path / "own").write_text("0::/a/b\n")
    (tmp_path / "groups/a/b").mkdir(parents=True)

    def free():
        return available_memory(tmp_path / "meminfo", tmp_path / "groups", tmp_path / "own")

    return tmp_path, free


def test_without_a_limit_it_is_what_the_machine_has_free(system):
    folder, free = system
    assert free() == 8 * GB
    (folder / "groups/a/b/memory.max").write_text("max\n")
    assert free() == 8 * GB


@pytest.mark.parametrize("place", ["a/b", "a", "."])
def test_the_limit_of_any_group_above_counts(system, place):
    folder, free = system
    (folder / "groups" / place / "memory.max").write_text(f"{3 * GB}\n")
    (folder / "groups" / place / "memory.current").write_text(f"{GB}\n")
    assert free() == 2 * GB


def test_control_groups_of_version_1(system):
    folder, free = system
    (folder / "own").write_text("5:cpu:/x\n4:memory:/a\n")
    group = folder / "groups/memory/a"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "memory.usage_in_bytes").write_text("0\n")
    assert free() == 8 * GB
    (group / "memory.limit_in_bytes").write_text(f"{GB}\n")
    assert free() == GB


def test_a_group_that_is_full_leaves_nothing(system):
    folder, free = system
    (folder / "groups/memory.max").write_text(f"{GB}\n")
    (folder / "groups/memory.current").write_text(f"{2 * GB}\n")
    assert free() == 0


def test_where_the_system_does_not_tell_half_of_all_memory_is_taken(tmp_path):
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(tmp_path / "none", tmp_path, tmp_path / "none") == total // 2


def test_here_it_is_some_of_the_memory_of_the_machine():
    assert 0 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
