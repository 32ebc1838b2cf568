"""KDEmbedding behaves as nn.Embedding does, and stands in for every kind of coded table."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sample_tables import DTYPES, KINDS, NAMES, coded_table, words
from torch import nn

import kdcode
from kdcode.codec import CodecSpec
from kdcode.codec.spec import COMPOSITIONS
from kdcode.codec_torch import make_module
from kdcode.errors import OptionError
from kdcode.nn import FixedAssignment, KDEmbedding

N, DIM = 30, 6
FLOATS = [(torch.float16, 0.02), (torch.bfloat16, 0.1), (torch.float64, 1e-6)]


def layer(composition="linear", **arguments):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return KDEmbedding(N, DIM, codebook_size=8, code_length=3, composition=composition, **arguments)


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 5), (0,)])
def test_any_shape_of_ids(composition, shape):
    ids = torch.randint(N, shape)
    out = layer(composition)(ids)
    assert out.shape == (*shape, DIM)
    torch.testing.assert_close(out, layer(composition).weight[ids])


@pytest.mark.parametrize("composition", COMPOSITIONS)
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
    assert float(module.codec.codebook.grad.abs().sum()) == 0
    assert torch.equal(module.weight[N - 1], torch.zeros(DIM))


@pytest.mark.parametrize("padding", [N, -N - 1])
def test_padding_outside_the_table_is_refused(padding):
    with pytest.raises(OptionError, match="padding_idx"):
        layer(padding_idx=padding)


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("ids", [[-1], [N], [[0, 1], [2, -N]]])
def test_ids_outside_the_table_are_refused_while_training_and_after(composition, ids):
    for module in (layer(composition).train(), layer(composition).eval()):
        with pytest.raises(IndexError):
            module(torch.tensor(ids))


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("ids", [[-1], [5], [[0, 1], [2, -5]]])
def test_ids_outside_a_coded_table_are_refused(kind, ids):
    with pytest.raises(IndexError):
        KDEmbedding.from_coded(coded_table(kind))(torch.tensor(ids))


def test_repeated_ids_are_composed_once(monkeypatch):
    module, seen = layer(), []
    compose = module.codec.forward
    monkeypatch.setattr(module.codec, "forward", lambda chosen: seen.append(len(chosen)) or compose(chosen))
    assert module(torch.tensor([[5, 5, 7], [7, 5, 5]])).shape == (2, 3, DIM)
    assert seen == [2]


def test_gradients_of_repeated_ids_add_up():
    module = layer()
    module(torch.tensor([2, 2])).sum().backward()
    twice = module.assignment.logits.grad.clone()
    module.zero_grad()
    module(torch.tensor([2])).sum().backward()
    torch.testing.assert_close(twice, 2 * module.assignment.logits.grad)


@pytest.mark.parametrize("estimator", ["straight-through", "soft", "gumbel"])
def test_codes_are_learned_in_the_task(estimator):
    torch.manual_seed(0)
    table = torch.randn(N, DIM)
    module = KDEmbedding(N, DIM, codebook_size=8, code_length=4)
    module.estimator = estimator
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
        twin.codec.codebook.zero_()
    assert float(module.weight.detach().abs().sum()) > 0
    assert float(twin.weight.detach().abs().sum()) == 0


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_torch_compile_gives_the_same_values_and_gradients(composition):
    torch.compiler.reset()  # torch compiles the same function for a few layers only
    module, ids = layer(composition), torch.tensor([[1, 2, 1], [0, 5, 5]])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), module(ids))
    compiled(ids).square().sum().backward()
    grads = {name: value.grad.clone() for name, value in module.named_parameters()}
    module.zero_grad()
    module(ids).square().sum().backward()
    for name, value in module.named_parameters():
        torch.testing.assert_close(value.grad, grads[name], msg=name)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_autocast_trains(composition):
    module, head = layer(composition), nn.Linear(DIM, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = head(module(torch.tensor([1, 2, 3]))).float().square().sum()
    loss.backward()
    assert torch.isfinite(module.codec.codebook.grad).all()
    assert float(module.assignment.logits.grad.abs().sum()) > 0


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_other_float_types_give_nearly_the_same_vectors_and_train(composition, dtype, tolerance):
    ids = torch.tensor([[1, 2, 1], [0, 5, 5]])
    reference = layer(composition)
    with torch.no_grad():
        reference.assignment.logits.copy_(reference.assignment.logits.bfloat16())  # equal in all types
    for estimator in ("straight-through", "soft", "gumbel"):
        module = copy.deepcopy(reference).to(dtype)
        module.estimator = estimator
        out = module(ids)
        assert out.dtype == dtype
        out.square().sum().backward()
        for name, value in module.named_parameters():
            assert value.grad.dtype == dtype
            assert torch.isfinite(value.grad).all(), name
            assert float(value.grad.abs().sum()) > 0, name
        if estimator == "straight-through":
            torch.testing.assert_close(out.float(), reference(ids), rtol=tolerance, atol=tolerance)
    assert torch.equal(module.codes, reference.codes)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_every_kind_of_table_serves_other_float_types(kind, dtype, tolerance):
    coded = coded_table(kind)
    module = KDEmbedding.from_coded(coded).to(dtype)
    out = module(torch.arange(5))
    assert out.dtype == dtype
    np.testing.assert_allclose(out.detach().float().numpy(), coded.decode(range(5)), rtol=tolerance, atol=2 * tolerance)
    out.square().sum().backward()
    assert all(torch.isfinite(value.grad).all() for value in module.parameters())
    assert float(module.codec.codebook.grad.abs().sum()) > 0


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_device_moves_take_everything_along(composition):
    module = layer(composition).to("meta")
    assert {value.device.type for value in module.state_dict().values()} == {"meta"}
    out = module.codec.compose(torch.empty(4, 3, dtype=torch.long, device="meta"))
    assert (out.shape, out.device.type) == ((4, DIM), "meta")


def test_from_codes_keeps_codes_and_trains_codewords():
    codes = torch.randint(8, (N, 3))
    module = KDEmbedding.from_codes(codes, 8, DIM, composition="lstm")
    assert torch.equal(module.codes, codes)
    assert not any(name.startswith("assignment") for name, _ in module.named_parameters())
    module(torch.arange(N)).sum().backward()
    assert float(module.codec.codebook.grad.abs().sum()) > 0


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_from_coded_starts_as_the_table_and_to_coded_gives_it_back(kind, dtype):
    coded = coded_table(kind, dtype, symbols=words(5))
    decoded = coded.decode(range(5))
    module = KDEmbedding.from_coded(coded)
    for mode in (module.train(), module.eval()):
        np.testing.assert_allclose(mode(torch.arange(5)).detach().numpy(), decoded, rtol=1e-5, atol=1e-5)
    assert torch.equal(module.codes, torch.from_numpy(coded.codes.astype(np.int64)))
    again = module.to_coded(words(5), "float32")
    np.testing.assert_array_equal(again.codes, coded.codes)
    np.testing.assert_allclose(again.decode(range(5)), decoded, rtol=1e-5, atol=1e-5)
    assert list(again.symbols) == words(5)
    same = module.to_coded(codebook_dtype=dtype)
    assert same.spec == coded.spec
    np.testing.assert_allclose(same.decode(range(5)), decoded, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["scaled-linear", "scaled-rotated", "scaled-lstm"])
def test_from_coded_keeps_row_scales(kind):
    coded = coded_table(kind, rows=40)
    lengths = torch.linalg.vector_norm(KDEmbedding.from_coded(coded).weight.detach(), dim=1)
    bare = np.linalg.norm(coded.codec.compose(coded.codes), axis=1)
    np.testing.assert_allclose(lengths, coded.norms, rtol=1e-4)
    assert np.abs(np.log(coded.norms / bare)).max() > 0.5  # the scales are worth keeping


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layer_is_trained_saved_and_loaded(dtype, tmp_path):
    module = layer("grouped")
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(5):
        module(torch.arange(N)).square().sum().backward()
        optimizer.step()
    kdcode.save(module.to_coded(words(N), dtype), tmp_path / "t.kdc")
    loaded = kdcode.load(tmp_path / "t.kdc")
    tolerance = 0.02 if dtype == "int8" else 1e-3
    np.testing.assert_allclose(
        loaded.decode(range(N)), module.eval().weight.detach().numpy(), rtol=tolerance, atol=3 * tolerance
    )
    assert KDEmbedding.from_coded(loaded, padding_idx=2).weight[2].abs().sum() == 0


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_layer_becomes_a_table_and_a_layer_again(composition):
    module = layer(composition)
    coded = module.to_coded([f"s{row}" for row in range(N)], "float32")
    torch.testing.assert_close(torch.from_numpy(coded.decode(range(N))), module.weight.detach(), rtol=1e-5, atol=1e-5)
    assert coded.symbols[3] == "s3"
    assert torch.equal(KDEmbedding.from_coded(coded).codes, module.codes)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_device_and_dtype_are_those_of_all_parts(composition):
    module = layer(composition, device="meta", dtype=torch.bfloat16)
    assert {(value.device.type, value.dtype) for value in module.parameters()} == {("meta", torch.bfloat16)}
    ids = torch.randint(N, (2, 3), device="meta")
    assert module(ids).shape == (2, 3, DIM)
    loaded = layer(composition).bfloat16()
    module.load_state_dict(loaded.state_dict(), assign=True)
    assert torch.equal(module.eval()(torch.arange(N)), loaded.eval()(torch.arange(N)))


def test_alternate_constructors_take_device_and_dtype():
    codes = torch.randint(8, (N, 3))
    coded = coded_table("scaled-lstm")
    for made in (
        KDEmbedding.from_codes(codes, 8, DIM, device="meta", dtype=torch.float16),
        KDEmbedding.from_coded(coded, device="meta", dtype=torch.float16),
    ):
        assert {value.device.type for value in made.state_dict().values()} == {"meta"}
        assert {value.dtype for value in made.parameters()} == {torch.float16}
        assert made.assignment.stored.dtype == torch.uint8


def test_fresh_logits_are_where_the_codec_is():
    module = KDEmbedding(N, DIM, composition=make_module(CodecSpec.named("linear", DIM, 8, 3), device="meta"))
    assert module.assignment.logits.device.type == "meta"


def test_from_coded_takes_a_path(tmp_path):
    coded = coded_table("grouped")
    kdcode.save(coded, tmp_path / "t.kdc")
    for path in (tmp_path / "t.kdc", str(tmp_path / "t.kdc")):
        assert torch.equal(KDEmbedding.from_coded(path).weight, KDEmbedding.from_coded(coded).weight)


def test_parts_of_ones_own():
    spec = CodecSpec.named("linear", DIM, 8, 3, codeword_dim=2)
    module = KDEmbedding(N, DIM, composition=make_module(spec))
    assert module.codec.codebook.shape == (3, 8, 2)
    assert module.assignment.logits.shape == (N, 3, 8)


def test_parts_that_do_not_fit_are_refused():
    codes = torch.randint(8, (N, 3))
    with pytest.raises(OptionError, match="assignment of 30 symbols"):
        KDEmbedding(N + 1, DIM, codebook_size=8, code_length=3, assignment=FixedAssignment(codes, 8))
    with pytest.raises(OptionError, match="K=9"):
        KDEmbedding(N, DIM, codebook_size=8, code_length=3, assignment=FixedAssignment(codes, 9))


def test_codes_without_the_level_of_a_row_scale_are_refused_by_a_codec_that_has_them():
    spec = CodecSpec.named("linear", DIM, 8, 3, scale_bits=2)
    for assignment in (None, FixedAssignment(torch.randint(8, (N, 3)), 8)):
        with pytest.raises(OptionError, match="codes of this codec have 4 columns, got 3"):
            KDEmbedding(N, DIM, composition=make_module(spec), assignment=assignment)


def test_printing_tells_the_shape():
    assert "30, 6, padding_idx=2" in repr(layer(padding_idx=2))
