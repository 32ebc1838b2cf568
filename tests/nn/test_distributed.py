"""A layer that learns codes under DistributedDataParallel: two real processes with gloo."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kdcode.nn import make_optimizer
from kdcode.nn.assignment import LEARNED

SCRIPT = Path(__file__).parent / "two_ranks.py"
KINDS = [f"{assignment} {order}" for assignment in LEARNED for order in ("sparse", "dense")]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("two_ranks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What both ranks found."""
    out = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-W", "error", str(SCRIPT)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    runs = [
        subprocess.Popen(
            [*command, str(rank), str(out / "meeting"), str(out)], stderr=subprocess.PIPE, text=True, env=environment
        )
        for rank in (0, 1)
    ]
    for run in runs:
        _, errors = run.communicate(timeout=600)
        assert run.returncode == 0, errors
    return [torch.load(out / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_stay_equal(ranks, kind):
    one, other = (rank[kind] for rank in ranks)
    assert torch.equal(one["state"]["0.assignment.rows.weight"], other["state"]["0.assignment.rows.weight"])
    assert torch.equal(one["state"]["0.codec.codebook"], other["state"]["0.codec.codebook"])
    assert one["is_sparse"] == kind.endswith("sparse")
    if kind.startswith("free"):  # batch statistics of the last step are those of each rank
        assert torch.equal(one["codes"], other["codes"])


@pytest.mark.parametrize("order", ["sparse", "dense"])
def test_two_ranks_learn_what_one_process_learns(ranks, script, order):
    model = script.fresh_model("free")
    script.train(model, make_optimizer(model), script.batches())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, ranks[0][f"free {order}"]["state"][name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("assignment", LEARNED)
def test_sparse_and_dense_gradients_agree(ranks, assignment):
    sparse, dense = (ranks[0][f"{assignment} {order}"]["state"] for order in ("sparse", "dense"))
    for name, value in sparse.items():
        torch.testing.assert_close(value, dense[name], rtol=1e-4, atol=1e-5)
