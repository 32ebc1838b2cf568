import numpy as np
import pytest
import torch

import kdcode
from kdcode.errors import OptionError
from kdcode.learning.run_settings import checked_device


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "cpu:0"])
def test_what_is_there(device):
    checked_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_cuda_where_there_is_none(device):
    with pytest.raises(OptionError) as refused:
        checked_device(device)
    message = str(refused.value)
    assert message.startswith(f"device must be one that torch can use here, got '{device}': ")
    assert message.endswith("; leave it out to use the CPU")
    assert "\n" not in message


@pytest.mark.parametrize("device", ["gpu", "", "cpu:x", None, 3.5])
def test_what_is_no_device(device):
    with pytest.raises(OptionError, match=r"device must be one that torch can use here, got "):
        checked_device(device)


def test_a_device_that_holds_no_numbers():
    with pytest.raises(OptionError, match="device must be one that can compute, got 'meta'"):
        checked_device("meta")


@pytest.mark.parametrize("learn", [kdcode.compress, kdcode.plan])
def test_a_device_that_is_not_there_is_refused_before_any_work(learn):
    with pytest.raises(OptionError, match="device must be one that torch can use here, got 'toaster'"):
        learn(np.ones((20, 4)), "2x", device="toaster", progress=lambda *_: pytest.fail("it began to work"))


def test_a_device_without_a_use_is_refused():
    with pytest.raises(OptionError, match="device is for learners by gradients, and additive works on the CPU"):
        kdcode.compress(np.ones((20, 4)), codebook_size=2, code_length=2, device="cpu:0")
