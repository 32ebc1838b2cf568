"""Parallel chunks: every item once, errors passed on, and torch's number of threads left as it was."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import torch

from kdcode.codec_torch import parallel
from kdcode.codec_torch.parallel import parallel_chunks

CPU = torch.device("cpu")


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
    held = threading.Event()

    def section():
        parallel_chunks(lambda _: held.set() or time.sleep(0.2), range(2), CPU)

    parallel_chunks(lambda item: out[item].add_(1), range(8), CPU)
    other = threading.Thread(target=section)
    other.start()
    held.wait()  # the child is forked while another thread is in a section
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(20)
        parallel_chunks(lambda item: out[item].add_(1), range(8), CPU)
        os._exit(int(out.sum()) != 16)
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_goes_on_after_an_error(four_threads):
    begun, ended = [], []

    def work(item):
        if item == 0:
            raise ValueError("no")
        begun.append(item)
        time.sleep(0.05)
        ended.append(item)

    with pytest.raises(ValueError, match="no"):
        parallel_chunks(work, range(40), CPU)
    assert sorted(begun) == sorted(ended)
    assert len(ended) < 39
    assert torch.get_num_threads() == threads_of_a_new_thread() == 4
