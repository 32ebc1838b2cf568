"""What a training loop logs of learned codes, and codewords that are brought back into use."""

from __future__ import annotations

import pytest
import torch

from kdcode.errors import OptionError
from kdcode.nn import KDEmbedding, UsageMeter, revive
from kdcode.nn.assignment import LEARNED

N, K, D = 40, 4, 2


def layer_with(codes):
    """A free layer with the given codes."""
    layer = KDEmbedding(len(codes), 6, codebook_size=K, code_length=codes.shape[1], assignment="free")
    with torch.no_grad():
        layer.assignment.logits.copy_(torch.nn.functional.one_hot(codes, K).float())
    return layer


def test_codes_used_alike_have_a_perplexity_of_k():
    codes = torch.cartesian_prod(torch.arange(K), torch.arange(K))
    usage = UsageMeter(layer_with(codes))()
    assert usage.perplexity == pytest.approx(K)
    assert usage.least_perplexity == pytest.approx(K)
    assert (usage.unused, usage.shared, usage.changed) == (0.0, 0.0, None)


def test_collapsed_positions_and_shared_codes_are_told():
    codes = torch.tensor([[0, 1], [1, 1], [2, 1], [3, 1], [3, 1], [3, 1]])
    usage = UsageMeter(layer_with(codes))()
    assert usage.least_perplexity == pytest.approx(1)
    shares = torch.tensor([1, 1, 1, 3]) / 6
    assert usage.perplexity == pytest.approx((1 + float(torch.exp(-(shares * shares.log()).sum()))) / 2)
    assert usage.unused == pytest.approx(3 / 8)
    assert usage.shared == pytest.approx(3 / 6)
    assert usage.as_dict()["shared"] == usage.shared


def test_changes_are_counted_from_call_to_call():
    codes = torch.zeros(10, D, dtype=torch.long)
    layer = layer_with(codes)
    meter = UsageMeter(layer)
    meter()
    assert meter().changed == 0
    with torch.no_grad():
        layer.assignment.logits[:5, 0, 2] = 9
    assert meter().changed == pytest.approx(5 / 20)
    assert meter().changed == 0


def collapsed(assignment):
    """A layer all of whose symbols use one codeword of the first position."""
    torch.manual_seed(0)
    layer = KDEmbedding(N, 6, codebook_size=K, code_length=D, assignment=assignment)
    with torch.no_grad():
        if assignment == "free":
            layer.assignment.logits[:, 0, 1] += 5
        else:
            width = layer.assignment.keys.shape[2]
            layer.assignment.rows.weight.normal_()[:, :width] += 10 * layer.assignment.keys[0, 1]
    assert layer.codes[:, 0].unique().tolist() == [1]
    return layer.eval()


@pytest.mark.parametrize("assignment", LEARNED)
def test_revived_codewords_are_used_and_vectors_hardly_change(assignment):
    layer = collapsed(assignment)
    before, meter = layer.weight.detach(), UsageMeter(layer)
    unused = meter().unused
    moved = revive(layer, generator=torch.Generator().manual_seed(1))
    assert moved == round(unused * K * D) >= 3
    after = meter()
    assert after.unused < unused
    assert after.least_perplexity > 1.5
    spread = float(before.std())
    assert float((layer.weight.detach() - before).abs().max()) < 0.2 * spread
    again = collapsed(assignment)
    revive(again, generator=torch.Generator().manual_seed(1))
    assert torch.equal(again.weight, layer.weight)  # the generator decides


@pytest.mark.parametrize("assignment", LEARNED)
def test_nothing_is_moved_where_all_codewords_are_used(assignment):
    torch.manual_seed(0)
    layer = KDEmbedding(500, 6, codebook_size=K, code_length=D, assignment=assignment)
    layer.assignment.rows.weight.data.normal_(0, 10)
    layer(torch.arange(500))
    before = layer.eval().weight.detach()
    assert UsageMeter(layer)().unused == 0
    assert revive(layer) == 0
    assert torch.equal(layer.weight, before)


def test_fixed_codes_are_not_revived():
    with pytest.raises(OptionError, match="fixed"):
        revive(KDEmbedding.from_codes(torch.zeros(5, 2, dtype=torch.long), 4, 6))
