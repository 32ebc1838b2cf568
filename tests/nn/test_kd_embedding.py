"""KDEmbedding behaves as nn.Embedding does."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from kdcode.errors import OptionError
from kdcode.learning.composition import LinearComposition
from kdcode.nn import FixedAssignment, KDEmbedding
from kdcode.nn.distinct import once_per_id
from kdcode.options import COMPOSITION_NAMES, CompressOptions

N, DIM = 30, 6


def layer(composition="linear", **arguments):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return KDEmbedding(N, DIM, codebook_size=8, code_length=3, composition=composition, **arguments)


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 5), (0,)])
def test_any_shape_of_ids(composition, shape):
    ids = torch.randint(N, shape)
    out = layer(composition)(ids)
    assert out.shape == (*shape, DIM)
    torch.testing.assert_close(out, layer(composition).weight[ids])


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
def test_training_and_evaluation_give_the_same_vectors(composition):
    module, ids = layer(composition), torch.arange(N)
    torch.testing.assert_close(module.train()(ids), module.eval()(ids))


def test_the_variance_is_that_of_an_embedding():
    values = torch.cat([KDEmbedding(500, 40, codebook_size=16, code_length=8).weight.detach() for _ in range(4)])
    assert float(values.var()) == pytest.approx(float(nn.Embedding(2000, 40).weight.detach().var()), rel=0.1)


def test_padding_is_zero_and_gets_no_gradient():
    module = layer(padding_idx=-1)
    assert module.padding_idx == N - 1
    out = module(torch.tensor([3, N - 1]))
    assert torch.equal(out[1], torch.zeros(DIM))
    module(torch.tensor([N - 1])).sum().backward()
    assert float(module.composition.codebook.grad.abs().sum()) == 0
    assert torch.equal(module.weight[N - 1], torch.zeros(DIM))


@pytest.mark.parametrize("padding", [N, -N - 1])
def test_padding_outside_the_table_is_refused(padding):
    with pytest.raises(OptionError, match="padding_idx"):
        layer(padding_idx=padding)


def test_float_ids_are_refused():
    with pytest.raises(OptionError, match="integers"):
        layer()(torch.tensor([1.0]))


def test_repeated_ids_are_composed_once():
    seen = []

    def vectors_of(ids):
        seen.append(len(ids))
        return torch.zeros(len(ids), 2)

    assert once_per_id(torch.tensor([[5, 5, 7], [7, 5, 5]]), vectors_of).shape == (2, 3, 2)
    assert seen == [2]


def test_gradients_of_repeated_ids_add_up():
    module = layer()
    module(torch.tensor([2, 2])).sum().backward()
    twice = module.assignment.logits.grad.clone()
    module.zero_grad()
    module(torch.tensor([2])).sum().backward()
    torch.testing.assert_close(twice, 2 * module.assignment.logits.grad)


@pytest.mark.parametrize("choice", ["straight-through", "soft", "gumbel"])
def test_codes_are_learned_in_the_task(choice):
    torch.manual_seed(0)
    table = torch.randn(N, DIM)
    module = KDEmbedding(N, DIM, codebook_size=8, code_length=4)
    module.choice = choice
    before, first = module.codes, float((module.weight.detach() - table).square().mean())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    for update in range(150):
        module.temperature = 1 / (1 + 0.1 * update)
        optimizer.zero_grad()
        (module(torch.arange(N)) - table).square().mean().backward()
        optimizer.step()
    module.eval()
    assert float((module.weight.detach() - table).square().mean()) < 0.5 * first
    assert not torch.equal(module.codes, before)


def test_state_dict_goes_round():
    module, other = layer("lstm"), KDEmbedding(N, DIM, codebook_size=8, code_length=3, composition="lstm")
    assert not torch.equal(module.weight, other.weight)
    other.load_state_dict(module.state_dict())
    assert torch.equal(module.weight, other.weight)


def test_deepcopy_is_apart():
    module = layer()
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.composition.codebook.zero_()
    assert float(module.weight.detach().abs().sum()) > 0
    assert float(twin.weight.detach().abs().sum()) == 0


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
def test_torch_compile_gives_the_same_values_and_gradients(composition):
    module, ids = layer(composition), torch.tensor([[1, 2, 1], [0, 5, 5]])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), module(ids))
    compiled(ids).square().sum().backward()
    grads = {name: value.grad.clone() for name, value in module.named_parameters()}
    module.zero_grad()
    module(ids).square().sum().backward()
    for name, value in module.named_parameters():
        torch.testing.assert_close(value.grad, grads[name], msg=name)


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
def test_autocast_trains(composition):
    module, head = layer(composition), nn.Linear(DIM, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = head(module(torch.tensor([1, 2, 3]))).float().square().sum()
    loss.backward()
    assert torch.isfinite(module.composition.codebook.grad).all()
    assert float(module.assignment.logits.grad.abs().sum()) > 0


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
def test_device_moves_take_everything_along(composition):
    module = layer(composition).to("meta")
    assert {value.device.type for value in module.state_dict().values()} == {"meta"}
    out = module.composition.compose(torch.empty(4, 3, dtype=torch.long, device="meta"))
    assert (out.shape, out.device.type) == ((4, DIM), "meta")


def test_from_codes_keeps_codes_and_trains_codewords():
    codes = torch.randint(8, (N, 3))
    module = KDEmbedding.from_codes(codes, 8, DIM, composition="lstm")
    assert torch.equal(module.codes, codes)
    assert not any(name.startswith("assignment") for name, _ in module.named_parameters())
    module(torch.arange(N)).sum().backward()
    assert float(module.composition.codebook.grad.abs().sum()) > 0


def test_from_pretrained_is_near_the_table():
    torch.manual_seed(0)
    table = torch.randn(16, 4)
    module = KDEmbedding.from_pretrained(table, 3, codebook_size=16, code_length=2, epochs=20, start="warm")
    kept = torch.arange(16) != 3
    assert float((module.weight.detach() - table)[kept].square().sum() / table[kept].square().sum()) < 0.05
    assert torch.equal(module.weight[3], torch.zeros(4))


@pytest.mark.parametrize("composition", COMPOSITION_NAMES)
def test_a_layer_becomes_a_table_and_a_layer_again(composition):
    module = layer(composition)
    coded = module.to_coded([f"s{row}" for row in range(N)], "float32")
    torch.testing.assert_close(torch.from_numpy(coded.decode(range(N))), module.weight.detach(), rtol=1e-5, atol=1e-5)
    assert coded.symbols[3] == "s3"
    assert torch.equal(KDEmbedding.from_coded(coded).codes, module.codes)


def test_parts_of_ones_own():
    shape = CompressOptions(8, 3, codeword_dim=2).code_shape(N, DIM)
    module = KDEmbedding(N, DIM, composition=LinearComposition(shape))
    assert module.composition.codebook.shape == (3, 8, 2)
    assert module.assignment.logits.shape == (N, 3, 8)


def test_parts_that_do_not_fit_are_refused():
    codes = torch.randint(8, (N, 3))
    with pytest.raises(OptionError, match="assignment of 30 symbols"):
        KDEmbedding(N + 1, DIM, codebook_size=8, code_length=3, assignment=FixedAssignment(codes, 8))
    with pytest.raises(OptionError, match="K=9"):
        KDEmbedding(N, DIM, codebook_size=8, code_length=3, assignment=FixedAssignment(codes, 9))


def test_printing_tells_the_shape():
    assert "30, 6, padding_idx=2" in repr(layer(padding_idx=2))
