"""Parallel chunks: every item once, errors passed on, and torch's number of threads left as it was, everywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest
import torch

import kdcode
from kdcode.codec_torch import parallel
from kdcode.codec_torch.parallel import default_threads, parallel_chunks, using_threads
from kdcode.data import glove_50d
from kdcode.errors import OptionError

CPU = torch.device("cpu")
PATIENCE = 300
"""Seconds after which a test gives up on an event that never comes."""


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    yield from number_of_threads(request.param)


@pytest.fixture
def four_threads():
    yield from number_of_threads(4)


def number_of_threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


def threads_of_a_new_thread():
    """What torch would use in a Python thread that begins now."""
    found = []
    asking = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    asking.start()
    asking.join()
    return found[0]


def test_every_item_is_worked_on_and_the_threads_are_given_back(threads):
    out = torch.zeros(50)
    parallel_chunks(lambda item: out[item].add_(item), range(50), CPU)
    assert torch.equal(out, torch.arange(50.0))
    assert torch.get_num_threads() == threads_of_a_new_thread() == threads


def test_operators_run_alone_while_chunks_are_parallel(four_threads):
    seen = []
    parallel_chunks(lambda item: seen.append((threading.get_ident(), torch.get_num_threads())), range(20), CPU)
    assert len(seen) == 20
    assert {count for _, count in seen} == {1}
    assert threading.get_ident() not in {ident for ident, _ in seen}


def test_what_a_thread_raises_reaches_the_caller(threads):
    def work(item):
        if item == 3:
            raise ValueError("third")

    with pytest.raises(ValueError, match="third"):
        parallel_chunks(work, range(5), CPU)
    assert torch.get_num_threads() == threads_of_a_new_thread() == threads


def test_threads_of_the_pool_that_start_late_change_nothing(four_threads):
    parallel._pool.cache_clear()
    started = []

    def late(*_):
        """Called in a new thread before it does anything; all but the first thread have to wait."""
        if threading.get_ident() not in started:
            started.append(threading.get_ident())
            time.sleep(0.2 * (len(started) > 1))

    threading.setprofile(late)
    try:
        parallel_chunks(lambda _: time.sleep(0.01), range(4), CPU)
        assert len(started) > 1
    finally:
        threading.setprofile(None)
    begun = time.monotonic()
    while time.monotonic() < begun + 0.4:
        assert torch.get_num_threads() == threads_of_a_new_thread() == 4
        time.sleep(0.02)


def test_sections_of_two_python_threads_give_both_their_threads_back(four_threads):
    counts, barrier = {}, threading.Barrier(2)

    def run(name, seconds):
        before = torch.get_num_threads()
        barrier.wait()
        for _ in range(5):
            parallel_chunks(lambda _: time.sleep(seconds), range(2), CPU)
        counts[name] = (before, torch.get_num_threads())

    both = [threading.Thread(target=run, args=arguments) for arguments in (("one", 0.004), ("other", 0.01))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert counts == {"one": (4, 4), "other": (4, 4)}
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_threads_of_its_own(four_threads):
    out = torch.zeros(8)
    held, forked = threading.Event(), threading.Event()

    def section():
        parallel_chunks(lambda _: held.set() or forked.wait(PATIENCE), range(2), CPU)

    parallel_chunks(lambda item: out[item].add_(1), range(8), CPU)
    other = threading.Thread(target=section)
    other.start()
    held.wait()  # the child is forked while another thread is in a section
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(PATIENCE)
        parallel_chunks(lambda item: out[item].add_(1), range(8), CPU)
        os._exit(int(out.sum()) != 16)
    forked.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_goes_on_after_an_error(four_threads, monkeypatch):
    begun, ended, cancelled = [], [], threading.Event()
    parallel_chunks(lambda _: None, range(4), CPU)  # the threads are there

    def work(item):
        if item == 0:
            raise ValueError("no")
        begun.append(item)
        cancelled.wait(PATIENCE)
        ended.append(item)

    def waiting(chunks):
        cancelled.set()
        return futures.wait(chunks)

    monkeypatch.setattr(parallel, "wait", waiting)
    with pytest.raises(ValueError, match="no"):
        parallel_chunks(work, range(40), CPU)
    assert sorted(begun) == sorted(ended)
    assert len(ended) <= 4  # those that other threads had begun
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4


def used_by_chunks(expected):
    """How many threads take chunks, and how many threads their operators use.

    The first chunks wait until as many threads have come as are expected, so that a slow start is no matter.
    """
    seen, meeting, late = [], threading.Barrier(expected), iter(range(12))

    def work(_):
        seen.append((threading.get_ident(), torch.get_num_threads()))
        if next(late) < expected:
            meeting.wait(PATIENCE)
        time.sleep(0.005)  # more threads than expected would take some of the others

    parallel_chunks(work, range(12), CPU)
    return len({ident for ident, _ in seen}), {count for _, count in seen}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_chunks_run_on_the_threads_that_were_asked_for(four_threads, count):
    with using_threads(count) as given:
        assert given == default_threads() == count
        assert torch.get_num_threads() == 1
        assert threads_of_a_new_thread() == 4  # other Python threads run as before
        assert used_by_chunks(count) == (count, {1})
        with using_threads():
            assert used_by_chunks(count)[0] == count
        with using_threads(2):
            assert used_by_chunks(2)[0] == 2
        assert used_by_chunks(count)[0] == count
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4
    assert used_by_chunks(4)[0] == 4


def test_an_error_within_gives_the_threads_back(four_threads):
    with pytest.raises(ValueError, match="no"), using_threads(2):
        raise ValueError("no")
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4
    assert used_by_chunks(4)[0] == 4


@pytest.mark.parametrize("count", [0, -2])
def test_less_than_one_thread_is_refused(count):
    with pytest.raises(OptionError, match=f"threads must be an integer from 1, got {count}"), using_threads(count):
        pass


def test_a_new_thread_waits_while_the_number_of_threads_is_changed(four_threads):
    found = []

    def run():
        with using_threads(2):
            pass
        found.append(torch.get_num_threads())

    thread = threading.Thread(target=run)
    with parallel._Setting.lock:
        parallel._in_another_thread(lambda: torch.set_num_threads(1))  # as a block does for a moment
        thread.start()
        thread.join(0.2)
        parallel._in_another_thread(lambda: torch.set_num_threads(4))
    thread.join()
    assert found == [4]


def test_blocks_of_two_python_threads_overlap(four_threads):
    found, barrier = {}, threading.Barrier(2)

    def run(name, count, seconds):
        with using_threads(count):
            barrier.wait()
            time.sleep(seconds)
            found[name] = used_by_chunks(count)[0]
        found[name] = (found[name], torch.get_num_threads())

    both = [threading.Thread(target=run, args=arguments) for arguments in (("one", 2, 0), ("other", 3, 0.1))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == {"one": (2, 4), "other": (3, 4)}
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4


def test_by_default_there_are_no_more_threads_than_cpus(four_threads, monkeypatch):
    monkeypatch.setattr(parallel, "available_cpus", lambda: 3)
    assert default_threads() == 3
    monkeypatch.setattr(parallel, "available_cpus", lambda: 64)
    assert default_threads() == 4  # what torch was told to use


def test_chunks_within_chunks_run_on_the_thread_that_has_them(four_threads):
    seen, meeting = [], threading.Barrier(2)

    def outer(_):
        parallel_chunks(lambda _: seen.append(threading.get_ident()), range(3), CPU)
        meeting.wait(PATIENCE)  # for the other thread

    with using_threads(2):
        parallel_chunks(outer, range(4), CPU)
    assert len(seen) == 12
    assert len(set(seen)) == 2


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux shows them")
def test_learning_starts_no_threads_but_ours():
    """Threads of OpenMP, which torch starts for its operators, would spin wherever they wait for each other."""
    script = """
import os, time, kdcode, torch
from kdcode.data import glove_50d
torch.set_num_threads(4)
table = glove_50d().head(3000)
before = len(os.listdir("/proc/self/task"))
kdcode.compress(table, codebook_size=32, code_length=9, effort="fast", threads=2)
for _ in range(3000):  # threads that have ended take a moment to go
    more = len(os.listdir("/proc/self/task")) - before
    if more <= 2:
        break
    time.sleep(0.02)
print(more)
"""
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ran = subprocess.run([sys.executable, "-c", script], env=free, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "2"


@pytest.mark.parametrize(
    "changes",
    [
        {"effort": "fast"},
        {"effort": "normal", "codebook_size": 8},
        {"composition": "grouped", "rotation": True, "effort": "fast"},
        {"composition": "product", "effort": "fast"},
        {"learner": "straight-through", "epochs": 2},
    ],
    ids=str,
)
def test_codes_do_not_depend_on_the_number_of_threads(changes):
    table = glove_50d().head(6000)
    options = {"codebook_size": 64, "code_length": 9, **changes}
    alone, several = (kdcode.compress(table, **options, threads=count) for count in (1, 3))
    np.testing.assert_array_equal(alone.packed, several.packed)
    for name, tensor in alone.codec.tensors().items():
        np.testing.assert_array_equal(tensor, several.codec.tensors()[name])
