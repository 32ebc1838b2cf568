"""KDEmbedding behaves as nn.Embedding does, and stands in for every kind of coded table."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sample_tables import CODEWORD_KINDS, CODEWORD_NAMES, DTYPES, TRANSFORM_NAMES, coded_table, words
from torch import nn

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.codec.spec import COMPOSITIONS as ALL_COMPOSITIONS
from kdcode.codec.spec import TRANSFORM
from kdcode.codec_torch import make_module
from kdcode.errors import OptionError
from kdcode.nn import FixedAssignment, FreeAssignment, KDEmbedding, QueryAssignment
from kdcode.nn.assignment import LEARNED

N, DIM = 30, 6
COMPOSITIONS = [name for name in ALL_COMPOSITIONS if name != TRANSFORM]
FLOATS = [(torch.float16, 0.02), (torch.bfloat16, 0.1), (torch.float64, 1e-6)]


ANY_ASSIGNMENT = pytest.mark.parametrize("assignment", LEARNED)


def layer(composition="linear", assignment="free", **arguments):
    """With random codes, as after some training."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"codebook_size": 8, "code_length": 3, "composition": composition}
        module = KDEmbedding(N, DIM, **shape, assignment=assignment, **arguments)
        if isinstance(assignment, str):
            module.assignment.rows.weight.data.normal_()
        return module


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 5), (0,)])
def test_any_shape_of_ids(composition, assignment, shape):
    ids, module = torch.randint(N, shape), layer(composition, assignment)
    assert module(ids).shape == (*shape, DIM)  # while training
    module.eval()
    torch.testing.assert_close(module(ids), module.weight[ids])


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_training_and_evaluation_give_the_same_vectors(composition):
    module, ids = layer(composition), torch.arange(N)
    torch.testing.assert_close(module.train()(ids), module.eval()(ids))


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_all_symbols_start_with_the_same_small_vector(composition):
    torch.manual_seed(0)
    module = KDEmbedding(50, 40, codebook_size=16, code_length=8, composition=composition)
    first = module.eval().weight.detach()
    torch.testing.assert_close(first, first[:1].expand(50, -1))
    values = module.codec.decode(torch.randint(1, 16, (500, 8))).detach()
    assert float(values.std()) == pytest.approx(0.3, rel=0.2)
    assert 0 < float(first.std()) < 0.5 * float(values.std())


def test_vectors_of_fixed_codes_have_the_variance_of_an_embedding():
    codes = torch.randint(16, (500, 8))
    values = torch.cat([KDEmbedding.from_codes(codes, 16, 40).weight.detach() for _ in range(4)])
    assert float(values.var()) == pytest.approx(float(nn.Embedding(2000, 40).weight.detach().var()), rel=0.1)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_codewords_are_drawn_again_as_large_as_asked(composition):
    module = KDEmbedding(50, 40, codebook_size=16, code_length=8, composition=composition)
    module.reset_codewords(std=0.02)
    values = module.codec.decode(torch.randint(1, 16, (500, 8))).detach()
    assert float(values.std()) == pytest.approx(0.02, rel=0.2)


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


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("ids", [[-1], [N], [[0, 1], [2, -N]]])
def test_ids_outside_the_table_are_refused_while_training_and_after(composition, assignment, ids):
    for module in (layer(composition, assignment).train(), layer(composition, assignment).eval()):
        with pytest.raises(IndexError):
            module(torch.tensor(ids))


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
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
    twice = module.assignment.rows.weight.grad.clone()
    module.zero_grad()
    module(torch.tensor([2])).sum().backward()
    torch.testing.assert_close(twice, 2 * module.assignment.rows.weight.grad)


@ANY_ASSIGNMENT
@pytest.mark.parametrize("estimator", ["straight-through", "soft", "gumbel"])
def test_codes_are_learned_in_the_task(assignment, estimator):
    torch.manual_seed(0)
    table = torch.randn(N, DIM)
    module = KDEmbedding(N, DIM, codebook_size=8, code_length=4, assignment=assignment)
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


@ANY_ASSIGNMENT
def test_state_dict_goes_round(assignment):
    module = layer("lstm", assignment)
    other = KDEmbedding(N, DIM, codebook_size=8, code_length=3, composition="lstm", assignment=assignment)
    module(torch.arange(N))  # batch statistics are part of the state
    module.eval(), other.eval()
    assert not torch.equal(module.weight, other.weight)
    other.load_state_dict(module.state_dict())
    assert torch.equal(module.weight, other.weight)


@ANY_ASSIGNMENT
def test_safetensors_saves_and_loads_a_model(assignment, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    module, other = (
        layer("grouped", assignment),
        KDEmbedding(N, DIM, codebook_size=8, code_length=3, composition="grouped", assignment=assignment),
    )
    module(torch.arange(N))
    safetensors.save_model(module, tmp_path / "m.safetensors")
    safetensors.load_model(other, tmp_path / "m.safetensors")
    assert torch.equal(module.eval().weight, other.eval().weight)


def test_deepcopy_is_apart():
    module = layer()
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.codec.codebook.zero_()
    assert float(module.weight.detach().abs().sum()) > 0
    assert float(twin.weight.detach().abs().sum()) == 0


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_torch_compile_gives_the_same_values_and_gradients(composition, assignment):
    torch.compiler.reset()  # torch compiles the same function for a few layers only
    # No id twice: inside a compiled graph every id is composed, and batch statistics would count it twice.
    module, ids = layer(composition, assignment), torch.tensor([[1, 2, 7], [0, 5, 9]])
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), module(ids))
    compiled(ids).square().sum().backward()
    grads = {name: value.grad.clone() for name, value in module.named_parameters()}
    module.zero_grad()
    module(ids).square().sum().backward()
    for name, value in module.named_parameters():
        # The order of ids, and so of sums, differs.
        torch.testing.assert_close(value.grad, grads[name], rtol=1e-4, atol=1e-4, msg=name)


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_autocast_trains(composition, assignment):
    module, head = layer(composition, assignment), nn.Linear(DIM, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = head(module(torch.tensor([1, 2, 3]))).float().square().sum()
    loss.backward()
    assert torch.isfinite(module.codec.codebook.grad).all()
    assert float(module.assignment.rows.weight.grad.abs().sum()) > 0


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


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
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


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_device_moves_take_everything_along(composition, assignment):
    module = layer(composition, assignment).to("meta")
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


@pytest.mark.parametrize(("kind", "dtype"), CODEWORD_KINDS)
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


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_transform_codes_cannot_be_trained(kind):
    coded = coded_table(kind)
    for arguments in ({}, {"learn_codes": True}):
        with pytest.raises(OptionError, match="coded: transform codes have no codewords to train; compress the table"):
            KDEmbedding.from_coded(coded, **arguments)
    with pytest.raises(OptionError, match="composition: the shape of a transform codec follows from a table"):
        KDEmbedding(5, 7, composition="transform")


@pytest.mark.parametrize("kind", ["scaled-linear", "scaled-rotated", "scaled-lstm"])
def test_from_coded_keeps_row_scales(kind):
    coded = coded_table(kind, rows=40)
    lengths = torch.linalg.vector_norm(KDEmbedding.from_coded(coded).weight.detach(), dim=1)
    bare = np.linalg.norm(coded.codec.compose(coded.codes), axis=1)
    np.testing.assert_allclose(lengths, coded.norms, rtol=1e-4)
    assert np.abs(np.log(coded.norms / bare)).max() > 0.5  # the scales are worth keeping


@ANY_ASSIGNMENT
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layer_is_trained_saved_and_loaded(dtype, assignment, tmp_path):
    module = layer("grouped", assignment)
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


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_layer_becomes_a_table_and_a_layer_again(composition, assignment):
    module = layer(composition, assignment)
    module(torch.arange(N))
    module.eval()
    coded = module.to_coded([f"s{row}" for row in range(N)], "float32")
    torch.testing.assert_close(torch.from_numpy(coded.decode(range(N))), module.weight.detach(), rtol=1e-5, atol=1e-5)
    assert coded.symbols[3] == "s3"
    assert torch.equal(KDEmbedding.from_coded(coded).codes, module.codes)


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_device_and_dtype_are_those_of_all_parts(composition, assignment):
    module = layer(composition, assignment, device="meta", dtype=torch.bfloat16)
    assert {(value.device.type, value.dtype) for value in module.parameters()} == {("meta", torch.bfloat16)}
    ids = torch.randint(N, (2, 3), device="meta")
    assert module(ids).shape == (2, 3, DIM)
    loaded = layer(composition, assignment).bfloat16()
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
    module = KDEmbedding(N, DIM, composition=make_module(CodewordSpec.named("linear", DIM, 8, 3), device="meta"))
    assert module.assignment.logits.device.type == "meta"


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
def test_codes_of_a_table_are_learned_further(kind):
    coded = coded_table(kind)
    if coded.spec.scale_bits:
        with pytest.raises(OptionError, match="scale_bits=0"):
            KDEmbedding.from_coded(coded, learn_codes=True)
        return
    module = KDEmbedding.from_coded(coded, 0, learn_codes=True)
    torch.testing.assert_close(module.weight[1:], torch.from_numpy(coded.to_table().matrix)[1:], rtol=1e-4, atol=1e-4)
    assert not module.weight[0].any()
    ids = torch.arange(1, len(coded))
    optimizer = kdcode.nn.make_optimizer(module, row_lr=2.0)
    module(ids).square().sum().backward()
    optimizer.step()
    assert not torch.equal(module.codes, torch.from_numpy(coded.codes.astype("int64")))


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
@pytest.mark.parametrize("learn", [False, True])
def test_code_dropout_leaves_out_codewords_in_training_alone(kind, learn):
    coded = coded_table(kind)
    if learn and coded.spec.scale_bits:
        pytest.skip("codes of rows with scales are not learned")
    module, ids = KDEmbedding.from_coded(coded, learn_codes=learn), torch.arange(len(coded))
    whole = module.train()(ids).detach()
    torch.testing.assert_close(module.eval()(ids).detach(), whole, rtol=1e-4, atol=1e-4)
    module.code_dropout = 0.5
    torch.testing.assert_close(module(ids).detach(), whole, rtol=1e-4, atol=1e-4)
    module.train()
    assert not torch.allclose(module(ids), whole, atol=1e-3)
    module.code_dropout = 1.0
    nothing = module(ids)
    if not coded.spec.scale_bits:  # a row's scale is no codeword, and stays
        torch.testing.assert_close(nothing, nothing[:1].expand_as(nothing))
    nothing.sum().backward()
    assert not module.codec.codebook.grad.any()


def test_code_dropout_keeps_the_mean():
    module, ids = layer("product"), torch.arange(N)
    whole = module.eval()(ids).detach()
    module.train().code_dropout = 0.25
    torch.manual_seed(0)
    draws = torch.stack([module(ids).detach() for _ in range(2000)])
    torch.testing.assert_close(draws.mean(dim=0), whole, rtol=0, atol=0.05)
    parts = draws.view(2000, N, 3, DIM // 3)
    assert float((parts == 0).all(dim=-1).float().mean()) == pytest.approx(0.25, abs=0.01)


def test_from_coded_takes_a_path(tmp_path):
    coded = coded_table("grouped")
    kdcode.save(coded, tmp_path / "t.kdc")
    for path in (tmp_path / "t.kdc", str(tmp_path / "t.kdc")):
        assert torch.equal(KDEmbedding.from_coded(path).weight, KDEmbedding.from_coded(coded).weight)


def test_parts_of_ones_own():
    spec = CodewordSpec.named("linear", DIM, 8, 3, codeword_dim=2)
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
    spec = CodewordSpec.named("linear", DIM, 8, 3, scale_bits=2)
    for assignment in ("free", FixedAssignment(torch.randint(8, (N, 3)), 8)):
        with pytest.raises(OptionError, match="codes of this codec have 4 columns, got 3"):
            KDEmbedding(N, DIM, composition=make_module(spec), assignment=assignment)


def test_printing_tells_the_shape():
    assert "30, 6, padding_idx=2" in repr(layer(padding_idx=2))


@ANY_ASSIGNMENT
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_frozen_layer_gives_the_vectors_of_evaluation_in_the_promised_bytes(composition, assignment, dtype):
    module = layer(composition, assignment, padding_idx=4).to(dtype)
    for _ in range(3):
        module(torch.randint(N, (20,)))
    frozen = module.eval().freeze()
    assert not frozen.training
    ids = torch.arange(N).view(5, 6)
    assert frozen(ids).dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(frozen(ids), module(ids).detach(), rtol=1e-5, atol=1e-5)
    else:
        torch.testing.assert_close(frozen(ids), module(ids).detach(), rtol=0.02, atol=0.02)
    assert torch.equal(frozen.codes, module.codes)
    assert frozen.nbytes == module.sizes.embedding
    assert not any(value.requires_grad for value in frozen.parameters())
    assert module.freeze("float16").nbytes < frozen.nbytes


@ANY_ASSIGNMENT
def test_freezing_while_training_does_not_disturb_it(assignment):
    module = layer("linear", assignment)
    before = copy.deepcopy(module.state_dict())
    assert module.freeze().training
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("size", ["4x", "20x", "50x", "100x", "30KB"])
def test_a_size_is_kept_by_the_frozen_layer_and_its_file(size, tmp_path):
    module = KDEmbedding(2000, 64, size=size)
    kdcode.save(module.to_coded(), tmp_path / "t.kdc")
    if size.endswith("x"):
        assert module.freeze().nbytes <= 4 * 2000 * 64 / float(size[:-1])
    else:
        assert (tmp_path / "t.kdc").stat().st_size <= 30_000
    longer = module.codec.spec.code_length + 1
    if longer <= 64:  # nothing is left unused
        bigger = CodewordSpec.named("product", 64, module.codec.spec.codebook_size, longer, codebook_dtype="float32")
        fits = (
            bigger.ratio(2000) >= float(size[:-1]) if size.endswith("x") else bigger.sizes(2000).learned_file <= 30_000
        )
        assert not fits


def test_a_layer_without_a_size_or_a_shape_is_twenty_times_smaller():
    assert 20 <= 4 * 3000 * 48 / KDEmbedding(3000, 48).sizes.embedding < 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "50x"}, "cannot be as small as 50x"),
        ({"size": "big"}, "size must be like 20x"),
        ({"size": "2x", "codebook_size": 8}, "leave codebook_size out"),
        ({"size": "2x", "composition": make_module(CodewordSpec.named("linear", DIM, 8, 3))}, "leave size out"),
        ({"codebook_size": 8, "assignment": "best"}, "assignment must be one of query, free"),
    ],
)
def test_sizes_and_names_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        KDEmbedding(N, DIM, **arguments)


def test_assignments_by_name():
    assert isinstance(layer(assignment="free").assignment, FreeAssignment)
    assert isinstance(layer(assignment="query").assignment, QueryAssignment)
