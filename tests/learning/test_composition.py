"""Torch compositions against their numpy twins, a plain loop, and the variance of a fresh nn.Embedding."""

from __future__ import annotations

import math

import pytest
import torch

from kdcode.budget import CodeShape
from kdcode.learning.composition import COMPOSITION_MODULES, LSTMComposition, make_composition
from kdcode.learning.lstm_scan import LstmScan
from kdcode.options import COMPOSITION_NAMES

SHAPES = {
    "linear": CodeShape(9, 6, 5, 3, 6, "linear", "float32"),
    "projected": CodeShape(9, 6, 5, 3, 4, "linear", "float32"),
    "lstm": CodeShape(9, 6, 5, 3, 4, "lstm", "float32"),
    "product": CodeShape(9, 6, 5, 3, 2, "product", "float32"),
    "uneven product": CodeShape(9, 7, 5, 3, 3, "product", "float32"),
    "grouped": CodeShape(9, 6, 5, 4, 3, "grouped", "float32"),
    "uneven grouped": CodeShape(9, 7, 5, 5, 4, "grouped", "float32"),
}


def module_of(kind):
    return make_composition(SHAPES[kind], generator=torch.Generator().manual_seed(0))


def some_codes(shape, rows=11):
    size = (rows, shape.code_length)
    return torch.randint(shape.codebook_size, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", SHAPES)
def test_torch_and_numpy_compose_the_same_vectors(kind):
    module = module_of(kind)
    codes = some_codes(module.shape)
    codebook, twin = module.to_numpy()
    expected = torch.from_numpy(twin.compose(codes.numpy(), codebook))
    torch.testing.assert_close(module.compose(codes), expected, rtol=1e-5, atol=1e-5)
    assert expected.shape == (11, module.shape.embedding_dim)


@pytest.mark.parametrize("kind", SHAPES)
def test_composing_codes_and_composing_their_codewords_agree(kind):
    module = module_of(kind)
    codes = some_codes(module.shape)
    words = torch.stack([module.codebook[j][codes[:, j]] for j in range(module.shape.code_length)], dim=1)
    torch.testing.assert_close(module(words), module.compose(codes))


@pytest.mark.parametrize("kind", SHAPES)
def test_weights_go_to_numpy_and_back(kind):
    module, other = module_of(kind), make_composition(SHAPES[kind])
    other.load_numpy(*module.to_numpy())
    for (name, mine), (_, theirs) in zip(module.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(mine, theirs), name


def plain_lstm(words, recurrent, bias, projection):
    """The paper's equations with scalars and lists only. words: D lists of e floats."""

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    size = len(bias[0])
    h, m, total = [0.0] * size, [0.0] * size, [0.0] * size
    for w in words:
        f, i, o, g = (
            [w[a] + sum(u[a][b] * h[b] for b in range(size)) + c[a] for a in range(size)]
            for u, c in zip(recurrent, bias, strict=True)
        )
        m = [sigmoid(f[a]) * m[a] + sigmoid(i[a]) * math.tanh(g[a]) for a in range(size)]
        h = [sigmoid(o[a]) * math.tanh(m[a]) for a in range(size)]
        total = [total[a] + h[a] for a in range(size)]
    return [sum(total[a] * projection[a][b] for a in range(size)) for b in range(len(projection[0]))]


def test_the_lstm_is_the_papers_gate_for_gate():
    module = module_of("lstm")
    assert isinstance(module, LSTMComposition)
    with torch.no_grad():
        module.bias.normal_(generator=torch.Generator().manual_seed(2))
    words = torch.randn(4, 3, 4, generator=torch.Generator().manual_seed(3))
    ours = module(words)
    for row in range(4):
        expected = plain_lstm(
            words[row].tolist(), module.recurrent.tolist(), module.bias.tolist(), module.projection.tolist()
        )
        torch.testing.assert_close(ours[row], torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_the_hand_written_gradient_of_the_lstm_is_right():
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 3, 4), (4, 4, 4), (4, 4))
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(LstmScan.apply, inputs)


@pytest.mark.parametrize("kind", SHAPES)
def test_fresh_vectors_have_the_variance_of_a_fresh_embedding(kind):
    shape = SHAPES[kind]
    big = CodeShape(1000, 48, 32, 8, {"linear": 48, "projected": 20, "lstm": 24}.get(kind, 6), shape.composition, "")
    with torch.no_grad():
        vectors = [
            make_composition(big, generator=torch.Generator().manual_seed(seed)).compose(some_codes(big, 1000))
            for seed in range(5)
        ]
    variance = torch.cat(vectors).var()
    reference = torch.nn.Embedding(1000, 48).weight.var()
    assert float(variance) == pytest.approx(float(reference.detach()), rel=0.15)


@pytest.mark.parametrize("kind", SHAPES)
def test_gains_are_the_mean_squared_slope_of_each_position(kind):
    module = module_of(kind)
    words = module.codebook[:, 0].detach().expand(400, -1, -1).contiguous()
    gains = module.gains(words)
    generator = torch.Generator().manual_seed(5)
    nudge = 1e-2 * torch.randn(400, module.shape.codeword_dim, generator=generator)
    for position in range(module.shape.code_length):
        moved = words.clone()
        moved[:, position] += nudge
        measured = ((module(moved) - module(words)).square().sum() / nudge.square().sum()).detach()
        if not kind.startswith("uneven"):  # there the last coordinate of narrow spans is not read
            assert float(gains[position]) == pytest.approx(float(measured), rel=0.2)


def test_every_composition_of_the_options_is_written():
    assert set(COMPOSITION_MODULES) == set(COMPOSITION_NAMES)
