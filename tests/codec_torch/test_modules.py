"""Codec modules against their numpy twins, a plain loop, and the variance of a fresh nn.Embedding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sample_tables import CODEWORD_NAMES, KINDS, TRANSFORM_NAMES, codec_of, codes_of, random_codes, spec_of

from kdcode.codec import CODECS, CodewordSpec, codec_from_tensors
from kdcode.codec.spec import TRANSFORM
from kdcode.codec_torch import (
    CODEC_MODULES,
    BlockSumModule,
    CodecModule,
    LstmModule,
    StoredCodec,
    make_module,
    module_of,
)
from kdcode.codec_torch.lstm_scan import LstmScan


def fresh(kind, **shape):
    return make_module(spec_of(kind, **shape), generator=torch.Generator().manual_seed(0))


def some_codes(spec, rows=11):
    return torch.from_numpy(random_codes(spec, rows))


def test_every_kind_of_codec_has_a_module():
    assert {*CODEC_MODULES, TRANSFORM} == set(CODECS)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_torch_and_numpy_give_the_same_vectors(kind, dtype):
    codec = codec_of(kind, dtype)
    module, codes = module_of(codec), codes_of(codec, 11)
    with torch.no_grad():
        decoded = module.decode(torch.from_numpy(codes))
        np.testing.assert_allclose(decoded.numpy(), codec.decode(codes), rtol=1e-5, atol=1e-5)
        assert decoded.shape == (11, codec.spec.embedding_dim)
        if isinstance(module, CodecModule):
            composed = module.compose(torch.from_numpy(codes))
            np.testing.assert_allclose(composed.numpy(), codec.compose(codes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("rows", [0, 1, 11])
def test_stored_codecs_give_the_same_vectors_from_the_stored_tensors(kind, dtype, rows):
    codec = codec_of(kind, dtype, size=16)
    stored, codes = StoredCodec(codec), codes_of(codec, rows)
    found = stored.decode(torch.from_numpy(codes))
    np.testing.assert_allclose(found.numpy(), codec.decode(codes), rtol=1e-5, atol=1e-5)
    assert set(stored.state_dict()) == set(codec.tensors())
    for name, array in codec.tensors().items():
        found = stored.state_dict()[name].numpy()
        assert found.dtype == ("int16" if array.dtype == "uint16" else array.dtype)
        np.testing.assert_array_equal(found.view(array.dtype), array)


def test_row_scales_multiply_the_composed_vectors():
    codec = codec_of("scaled-linear")
    module, codes = module_of(codec), some_codes(codec.spec)
    levels = torch.from_numpy(codec.stored["scale_levels"])[codes[:, -1]]
    assert levels.std() > 0.1
    torch.testing.assert_close(module.decode(codes), module.compose(codes) * levels[:, None])


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_composing_codes_and_composing_their_codewords_agree(kind):
    module = fresh(kind)
    codes = some_codes(module.spec)
    words = torch.stack([module.codebook[j][codes[:, j]] for j in range(module.spec.code_length)], dim=1)
    torch.testing.assert_close(module(words), module.compose(codes))


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_weights_go_to_numpy_and_back(kind):
    module, other = fresh(kind), make_module(spec_of(kind))
    if module.scale_levels is not None:
        module.scale_levels.copy_(torch.linspace(1, 2, len(module.scale_levels)))
    other.load_codec(module.to_codec())
    assert list(module.state_dict())
    for name, mine in module.state_dict().items():
        assert torch.equal(mine, other.state_dict()[name]), name


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2**-11), ("int8", 1 / 127)])
def test_weights_are_rounded_to_the_number_type_that_is_asked_for(dtype, step):
    module = fresh("projected")
    codec = module.to_codec(dtype)
    assert codec.spec.codebook_dtype == dtype
    words = module.codebook.detach().numpy()
    lost = np.abs(codec.codebook - words).max()
    assert 0 < lost < step * np.abs(words).max()
    assert module.to_codec().spec.codebook_dtype == "float32"


def plain_lstm(words, recurrent, bias, basis):
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
    return [sum(total[a] * basis[a][b] for a in range(size)) for b in range(len(basis[0]))]


def test_the_lstm_is_the_papers_gate_for_gate():
    module = fresh("lstm")
    assert isinstance(module, LstmModule)
    with torch.no_grad():
        module.bias.normal_(generator=torch.Generator().manual_seed(2))
    words = torch.randn(4, 4, 3, generator=torch.Generator().manual_seed(3))
    ours = module(words)
    for row in range(4):
        expected = plain_lstm(
            words[row].tolist(), module.recurrent.tolist(), module.bias.tolist(), module.basis.tolist()
        )
        torch.testing.assert_close(ours[row], torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_the_hand_written_gradient_of_the_lstm_is_right():
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 3, 4), (4, 4, 4), (4, 4))
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(LstmScan.apply, inputs)


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_fresh_vectors_have_the_variance_of_a_fresh_embedding(kind):
    spec = spec_of(kind, length=8, size=32, dim=48)
    with torch.no_grad():
        vectors = [
            make_module(spec, generator=torch.Generator().manual_seed(seed)).decode(some_codes(spec, 1000))
            for seed in range(5)
        ]
    variance = torch.cat(vectors).var()
    reference = torch.nn.Embedding(1000, 48).weight.var()
    assert float(variance) == pytest.approx(float(reference.detach()), rel=0.15)


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_gains_are_the_mean_squared_slope_of_each_position(kind):
    module = fresh(kind, dim=8)
    words = module.codebook[:, 0].detach().expand(400, -1, -1).contiguous()
    gains = module.gains(words)
    generator = torch.Generator().manual_seed(5)
    nudge = 1e-2 * torch.randn(400, module.spec.codeword_dim, generator=generator)
    for position in range(module.spec.code_length):
        moved = words.clone()
        moved[:, position] += nudge
        measured = ((module(moved) - module(words)).square().sum() / nudge.square().sum()).detach()
        if kind != "uneven":  # there the last coordinate of a narrower block is not read
            assert float(gains[position]) == pytest.approx(float(measured), rel=0.2)


@pytest.mark.parametrize("kind", ["linear", "rotated-product", "rotated-grouped"])
def test_coordinates_undo_an_orthonormal_basis(kind):
    module = module_of(codec_of(kind))
    assert isinstance(module, BlockSumModule)
    vectors = module.compose(some_codes(module.spec)).detach()
    coordinates = module.coordinates(vectors)
    basis = torch.eye(7) if module.basis is None else module.basis.detach()
    torch.testing.assert_close(coordinates @ basis, vectors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
@pytest.mark.parametrize("dim", [1, 2, 20, 100])
def test_transform_codes_of_any_length_are_decoded_in_torch(kind, dim):
    codec = codec_of(kind, dim=dim)
    codes = codes_of(codec, 300)
    found = module_of(codec).decode(torch.from_numpy(codes))
    np.testing.assert_allclose(found.numpy(), codec.decode(codes), rtol=1e-5, atol=1e-5)
    wide = module_of(codec).double().decode(torch.from_numpy(codes.astype(np.int32)))
    np.testing.assert_allclose(wide.numpy(), codec.decode(codes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["transform", "transform-centroids"])
def test_a_transform_codec_is_no_module_to_be_trained(kind):
    module = module_of(codec_of(kind))
    assert not list(module.parameters())
    expected = {"mean", "steps", "sides", "rotation"}
    assert set(module.state_dict()) == expected | ({"centroids"} if "centroids" in kind else set())


def test_a_stored_codec_notices_tensors_that_change():
    codec = codec_of("transform")
    stored, codes = StoredCodec(codec), codes_of(codec, 50)
    before = stored.decode(torch.from_numpy(codes)).numpy()
    assert stored.in_numpy() is stored.in_numpy()
    stored.sides.zero_()  # from which a codec makes other numbers, once
    changed = codec_from_tensors(codec.spec, {**codec.stored, "sides": np.zeros_like(codec.stored["sides"])})
    found = stored.decode(torch.from_numpy(codes)).numpy()
    np.testing.assert_allclose(found, changed.decode(codes), rtol=1e-5, atol=1e-6)
    assert not np.allclose(found, before)


def test_printing_tells_the_shape():
    plain = codec_of("transform-plain")
    assert "transform, 9 bytes per row, no rotation, 32 states, embedding_dim=7" in repr(module_of(plain))
    spec = CodewordSpec.named("product", 6, 4, 3)
    assert "product, codebook_size=4, code_length=3, codeword_dim=2, embedding_dim=6" in repr(make_module(spec))
