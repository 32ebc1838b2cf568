import os
import signal
import time

import pytest
import torch

from kdcode.learning.side_by_side import side_by_side


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_every_item_is_worked_on_and_the_threads_are_given_back(threads):
    out = torch.zeros(50)
    side_by_side(lambda item: out[item].add_(item), range(50), torch.device("cpu"))
    assert torch.equal(out, torch.arange(50.0))
    assert torch.get_num_threads() == threads


def test_what_a_thread_raises_reaches_the_caller(threads):
    def work(item):
        if item == 3:
            raise ValueError("third")

    with pytest.raises(ValueError, match="third"):
        side_by_side(work, range(5), torch.device("cpu"))
    assert torch.get_num_threads() == threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_threads_of_its_own():
    torch.set_num_threads(2)
    out = torch.zeros(8)
    side_by_side(lambda item: out[item].add_(1), range(8), torch.device("cpu"))
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(20)
        side_by_side(lambda item: out[item].add_(1), range(8), torch.device("cpu"))
        os._exit(int(out.sum()) != 16)
    assert os.waitpid(child, 0)[1] == 0


def test_nothing_goes_on_after_an_error():
    torch.set_num_threads(2)
    begun, ended = [], []

    def work(item):
        if item == 0:
            raise ValueError("no")
        begun.append(item)
        time.sleep(0.05)
        ended.append(item)

    with pytest.raises(ValueError, match="no"):
        side_by_side(work, range(40), torch.device("cpu"))
    assert sorted(begun) == sorted(ended)
    assert len(ended) < 39
    assert torch.get_num_threads() == 2
