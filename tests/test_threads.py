"""Chunks on threads: every item once, errors passed on, and numpy's BLAS given its threads back."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent import futures

import numpy as np
import pytest

import kdcode
from kdcode import threads
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.threads import default_threads, parallel_chunks, using_threads

PATIENCE = 300
"""Seconds after which a test gives up on an event that never comes."""


def blas_threads():
    found = threads._blas_functions()
    if found is None:
        pytest.skip("numpy has another BLAS than OpenBLAS")
    return found[0]()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_item_is_worked_on_once(count):
    out = np.zeros(50)

    def add(item):
        out[item] += item

    parallel_chunks(add, range(50), count)
    np.testing.assert_array_equal(out, np.arange(50.0))


def used_by_chunks(expected):
    """How many threads take chunks; the first chunks wait until as many threads have come as are expected."""
    seen, meeting, late = set(), threading.Barrier(expected), iter(range(12))

    def work(_):
        seen.add(threading.get_ident())
        if next(late) < expected:
            meeting.wait(PATIENCE)
        time.sleep(0.005)  # more threads than expected would take some of the others

    parallel_chunks(work, range(12))
    return len(seen)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_chunks_run_on_the_threads_that_were_asked_for(count):
    before = blas_threads()
    with using_threads(count) as given:
        assert given == default_threads() == count
        assert blas_threads() == 1
        assert used_by_chunks(count) == count
        with using_threads():
            assert used_by_chunks(count) == count
        with using_threads(2):
            assert used_by_chunks(2) == 2
        assert used_by_chunks(count) == count
    assert blas_threads() == before


def test_an_error_within_gives_the_threads_back():
    before = blas_threads()
    with pytest.raises(ValueError, match="no"), using_threads(2):
        raise ValueError("no")
    assert blas_threads() == before


@pytest.mark.parametrize("count", [0, -2])
def test_less_than_one_thread_is_refused(count):
    with pytest.raises(OptionError, match=f"threads must be an integer from 1, got {count}"), using_threads(count):
        pass


def test_by_default_there_are_no_more_threads_than_cpus(monkeypatch):
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert default_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert default_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert default_threads() == 3


def test_nothing_goes_on_after_an_error(monkeypatch):
    begun, ended, cancelled = [], [], threading.Event()
    parallel_chunks(lambda _: None, range(4), 4)  # the threads are there

    def work(item):
        if item == 0:
            raise ValueError("no")
        begun.append(item)
        cancelled.wait(PATIENCE)
        ended.append(item)

    def waiting(chunks):
        cancelled.set()
        return futures.wait(chunks)

    monkeypatch.setattr(threads, "wait", waiting)
    with pytest.raises(ValueError, match="no"):
        parallel_chunks(work, range(40), 4)
    assert sorted(begun) == sorted(ended)
    assert len(ended) <= 4  # those that other threads had begun


def test_chunks_within_chunks_run_on_the_thread_that_has_them():
    seen, meeting = [], threading.Barrier(2)

    def outer(_):
        parallel_chunks(lambda _: seen.append(threading.get_ident()), range(3))
        meeting.wait(PATIENCE)  # for the other thread

    with using_threads(2):
        parallel_chunks(outer, range(4))
    assert len(seen) == 12
    assert len(set(seen)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_threads_of_its_own():
    out = np.zeros(8)
    held, forked = threading.Event(), threading.Event()

    def add(item):
        out[item] += 1

    def section():
        parallel_chunks(lambda _: held.set() or forked.wait(PATIENCE), range(2), 2)

    parallel_chunks(add, range(8), 3)
    other = threading.Thread(target=section)
    other.start()
    held.wait()  # the child is forked while another thread is in a section
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(PATIENCE)
        parallel_chunks(add, range(8), 3)
        os._exit(int(out.sum()) != 16)
    forked.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"effort": "fast"},
        {"effort": "normal", "codebook_size": 8},
        {"composition": "grouped", "rotation": True, "effort": "fast"},
        {"composition": "product", "effort": "fast"},
        {"learner": "straight-through", "epochs": 2},
        {"size": "20x", "effort": "fast"},
    ],
    ids=str,
)
def test_codes_do_not_depend_on_the_number_of_threads(changes):
    table = glove_50d().head(6000)
    options = changes if "size" in changes else {"codebook_size": 64, "code_length": 9, **changes}
    alone, several = (kdcode.compress(table, **options, threads=count) for count in (1, 3))
    np.testing.assert_array_equal(np.asarray(alone.packed), np.asarray(several.packed))
    for name, tensor in alone.codec.tensors().items():
        np.testing.assert_array_equal(tensor, several.codec.tensors()[name])
