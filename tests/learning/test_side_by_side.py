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
