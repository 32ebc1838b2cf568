"""Lookups on the CPU without gradients: what they are quick with must never change what comes out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from counted_work import calls_made, largest_tensor_made
from reading_threads import in_threads
from sample_tables import KINDS, coded_table
from torch.utils._python_dispatch import TorchDispatchMode

from kdcode.errors import OptionError, RowError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag, CodedOutput

ROWS, DIM = 60, 24


def table(kind="linear", dtype="int8", seed=0):
    return coded_table(kind, dtype, rows=ROWS, length=4, size=8, dim=DIM, seed=seed)


def full(coded) -> torch.Tensor:
    return torch.from_numpy(coded.decode(np.arange(len(coded))))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keep", [{}, {"expand": "float32"}, {"expand": "float32", "expand_below": 100}])
@pytest.mark.parametrize("form", ["packed", "unpacked"])
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_what_is_kept_is_what_is_decoded(kind, dtype, form, keep):
    coded = table(kind, dtype)
    layer, expected = CodedEmbedding(coded, padding_idx=3, form=form, **keep), full(coded)
    expected[3] = 0
    for count in (1, 5, 40, 2000):
        for seed in range(2):  # rows that are new, and rows that were kept
            ids = torch.randint(ROWS, (count,), generator=torch.Generator().manual_seed(seed))
            close(layer(ids), expected[ids])
            close(layer(ids.view(1, -1, 1)), expected[ids][None, :, None])


@pytest.mark.parametrize("keep", [{}, {"expand": "float32"}])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_of_kept_rows(mode, keep, padding):
    coded = table()
    bag = CodedEmbeddingBag(coded, padding, mode=mode, **keep)
    plain = torch.nn.EmbeddingBag.from_pretrained(full(coded), mode=mode, padding_idx=padding)
    ids = torch.randint(ROWS, (7, 5), generator=torch.Generator().manual_seed(1))
    for _ in range(3):
        close(bag(ids), plain(ids))
        close(bag(ids.flatten(), torch.tensor([0, 5, 30])), plain(ids.flatten(), torch.tensor([0, 5, 30])))


@pytest.mark.parametrize("keep", [{}, {"expand": "float32"}])
def test_weights_that_are_loaded_later_count(keep):
    first, second = table(seed=0), table(seed=1)
    ids = torch.arange(ROWS)
    for assign in (False, True):
        layer = CodedEmbedding(first, **keep)
        for _ in range(3):
            close(layer(ids), full(first))
        layer.load_state_dict(CodedEmbedding(second).state_dict(), assign=assign)
        close(layer(ids), full(second))
        close(layer(torch.tensor([4])), full(second)[[4]])


@pytest.mark.parametrize("keep", [{}, {"expand": "float32"}])
def test_config_and_state_build_the_same_layer(keep):
    layer = CodedEmbedding(table(), **keep)
    layer(torch.arange(5))
    assert set(layer.state_dict()) == set(CodedEmbedding(table()).state_dict())
    other = CodedEmbedding.from_config(layer.config)
    other.load_state_dict(layer.state_dict())
    close(other(torch.arange(ROWS)), layer(torch.arange(ROWS)))
    assert other.config == layer.config
    copied = copy.deepcopy(layer)
    close(copied(torch.arange(ROWS)), layer(torch.arange(ROWS)))
    assert copied._lookup is not layer._lookup


def test_kept_vectors_are_counted():
    plain = CodedEmbedding(table())
    expanded = CodedEmbedding(table(), expand="float32")
    expanded(torch.tensor([0]))
    assert expanded.nbytes - plain.nbytes == 4 * ROWS * DIM


def test_only_tables_below_the_size_are_expanded():
    whole = 4 * ROWS * DIM
    for size, is_expanded in ((whole, True), (whole - 1, False)):
        layer = CodedEmbedding(table(), expand="float32", expand_below=size)
        layer(torch.tensor([0]))
        assert (layer.expanded is not None) == is_expanded
    half = CodedEmbedding(table(), expand="bfloat16", expand_below=whole // 2)
    assert half(torch.tensor([0])).dtype == torch.float32
    assert half.expanded.dtype == torch.bfloat16
    int8 = CodedEmbedding(table(), expand="int8", expand_below=whole // 4 + 4 * ROWS)
    int8(torch.tensor([0]))
    assert int8.expanded.nbytes + int8.expanded_scales.nbytes == whole // 4 + 4 * ROWS


def test_sizes_that_are_none_and_trained_tables_are_refused():
    for wrong in ("20x", "large", 0, -5, True):
        with pytest.raises(OptionError, match="expand_below must be a size like 64MB, 500KB or a number of bytes, got"):
            CodedEmbedding(table(), expand="int8", expand_below=wrong)
    with pytest.raises(OptionError, match="expand must be one of int8, bfloat16, float32 or None, got 'int4'"):
        CodedEmbedding(table(), expand="int4")
    with pytest.raises(OptionError, match="expand: vectors cannot be kept while codewords are trained"):
        CodedEmbedding(table(), trainable=True, expand="float32")


@pytest.mark.parametrize(("expand", "step"), [("int8", 1 / 254), ("bfloat16", 1 / 256)])
@pytest.mark.parametrize("kind", ["linear", "transform"])
def test_rows_that_are_kept_rounded_are_within_half_a_step(kind, expand, step):
    coded = table(kind)
    layer, expected = CodedEmbedding(coded, padding_idx=3, expand=expand), full(coded)
    expected[3] = 0
    found = layer(torch.arange(ROWS))
    room = step * expected.abs().amax(dim=1, keepdim=True) * 1.001
    assert ((found - expected).abs() <= room).all()
    assert not torch.equal(found, expected)
    bag = CodedEmbeddingBag(coded, 3, mode="sum", expand=expand)
    torch.testing.assert_close(bag(torch.tensor([[1, 2, 3]]))[0], found[1] + found[2])
    head = CodedOutput(layer, bias=True)
    hidden = torch.randn(5, DIM, generator=torch.Generator().manual_seed(0), requires_grad=True)
    logits = head(hidden)
    torch.testing.assert_close(logits, hidden @ found.t(), rtol=1e-4, atol=1e-5)
    logits.square().sum().backward()
    torch.testing.assert_close(hidden.grad, 2 * (hidden @ found.t()).detach() @ found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("keep", [{}, {"expand": "float32"}])
@pytest.mark.parametrize("ids", [[-1], [ROWS], [0, 1, -ROWS], [5] * 50 + [10**12]])
def test_ids_outside_the_table_raise(ids, keep):
    layer = CodedEmbedding(table(), **keep)
    for _ in range(3):
        with pytest.raises(RowError, match=rf"ids must be in \[0, {ROWS}\), got ids from"):
            layer(torch.tensor(ids))


def test_gradients_flow_where_they_are_asked_for():
    layer = CodedEmbedding(table(), trainable=True)
    found = layer(torch.tensor([1, 2, 2]))
    found.sum().backward()
    assert layer.codec.codebook.grad.abs().sum() > 0
    with torch.no_grad():
        assert not layer(torch.tensor([1])).requires_grad
        close(layer(torch.tensor([1, 2, 2])), found.detach())


def test_weights_that_are_trained_count_at_once():
    layer = CodedEmbedding(table(), trainable=True)
    ids = torch.arange(ROWS)
    with torch.no_grad():
        before = layer(ids)
        layer.codec.codebook.mul_(2)
        close(layer(ids), 2 * before)


KEPT = pytest.mark.parametrize("keep", [{}, {"expand": "float32"}])
STATE = {"linear": "codebook_scale", "rotated-product": "basis_scale", "lstm": "bias", "scaled-linear": "scale_levels"}


def rounded(layer) -> torch.Tensor:
    """What a new layer with the state of this one gives, by torch's operators alone."""
    other = CodedEmbedding.from_config({**layer.config, "expand": None})
    other.load_state_dict(layer.state_dict())
    return other.composed(torch.arange(ROWS))


@KEPT
@pytest.mark.parametrize("kind", STATE)
def test_a_tensor_that_is_swapped_for_a_call_counts_for_it_alone(kind, keep):
    layer, ids = CodedEmbedding(table(kind), **keep), torch.arange(ROWS)
    before = layer(ids)
    name = f"codec.{STATE[kind]}"
    changed = {name: 2 * layer.state_dict()[name]}
    found = torch.func.functional_call(layer, changed, (ids,))
    close(layer(ids), before)
    layer.load_state_dict({**layer.state_dict(), **changed}, assign=True)
    close(found, rounded(layer))
    assert not torch.allclose(found, before)


@KEPT
@pytest.mark.parametrize("way", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", STATE)
def test_what_is_written_in_place_counts(kind, way, keep):
    layer, ids = CodedEmbedding(table(kind), **keep), torch.arange(ROWS)
    before = layer(ids)
    with way():
        layer.codec.get_buffer(STATE[kind]).mul_(2)
        close(layer(ids), rounded(layer))
    close(layer(ids), rounded(layer))
    assert not torch.allclose(layer(ids), before)
    with way():
        layer.code_rows.copy_(layer.code_rows.flip(0).contiguous())
    close(layer(ids), rounded(layer))


@KEPT
def test_what_is_written_to_tensors_of_inference_mode_counts(keep):
    with torch.inference_mode():
        layer = CodedEmbedding(table(), **keep)
        before = layer(torch.arange(ROWS))
        layer.codec.codebook_scale.mul_(2)
    close(layer(torch.arange(ROWS)), 2 * before)


@KEPT
@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_other_data_count_after_refresh(form, keep):
    layer, other = CodedEmbedding(table(seed=0), form=form, **keep), CodedEmbedding(table(seed=1), form=form)
    layer(torch.arange(ROWS))
    for name, tensor in other.state_dict().items():
        (layer.get_parameter(name) if form == "unpacked" and "codec" in name else layer.get_buffer(name)).data = tensor
    layer.refresh()
    close(layer(torch.arange(ROWS)), full(table(seed=1)))


@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_moves_and_copies_count(form):
    layer, ids = CodedEmbedding(table("rotated-product"), form=form), torch.arange(ROWS)
    expected = layer(ids)
    copied = copy.deepcopy(layer)
    with torch.no_grad():
        next(tensor for name, tensor in layer.codec.state_dict().items() if name == "codebook").zero_()
    close(copied(ids), expected)
    assert not layer(ids).any()
    copied.to(torch.float64)
    torch.testing.assert_close(copied(ids), expected.double(), rtol=1e-4, atol=1e-5)
    copied.to(torch.float32).share_memory()
    close(copied(ids), expected)


@KEPT
@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_rows_that_were_cut_off_are_gone(form, keep):
    layer = CodedEmbedding(table(), form=form, **keep)
    expected = layer(torch.arange(ROWS))
    layer.code_rows = layer.code_rows[:5]
    if not keep:
        close(layer(torch.tensor([4])), expected[[4]])
    for ids in ([5], [0, 7], list(range(ROWS))):
        with pytest.raises(IndexError):
            layer(torch.tensor(ids))
    layer.num_embeddings = 5
    close(layer(torch.arange(5)), expected[:5])
    with pytest.raises(RowError, match=r"ids must be in \[0, 5\), got ids from 5 to 5"):
        layer(torch.tensor([5]))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_tangents_are_not_lost():
    layer, ids = CodedEmbedding(table("product", "float32"), trainable=True), torch.arange(ROWS)
    layer.requires_grad_(False)
    codebook = {"codec.codebook": layer.codec.codebook.detach()}
    found = torch.func.jvp(lambda now: torch.func.functional_call(layer, now, (ids,)), (codebook,), (codebook,))
    close(found[1], found[0])


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traces_hold_the_table_and_no_answers():
    layer = CodedEmbedding(table())
    traced = torch.jit.trace(layer, torch.tensor([1, 2, 3]), check_trace=False)
    close(traced(torch.tensor([7, 0, 9])), layer(torch.tensor([7, 0, 9])))


def test_inference_mode_and_other_integers():
    layer, expected = CodedEmbedding(table()), full(table())
    with torch.inference_mode():
        close(layer(torch.tensor([3, 4])), expected[[3, 4]])
        made_inside = [CodedEmbedding(table(), **keep) for keep in ({}, {"expand": "float32"})]
    for other in [*made_inside, CodedEmbedding(table())]:
        with torch.inference_mode():
            close(other(torch.tensor([3, 4])), expected[[3, 4]])
        close(other(torch.tensor([3, 4])), expected[[3, 4]])
    for dtype in (torch.int32, torch.uint8, torch.int16):
        close(layer(torch.tensor([[3, 4]], dtype=dtype)), expected[[3, 4]][None])
    strided = torch.arange(20).view(4, 5).t()
    close(layer(strided), expected[strided])


@pytest.mark.parametrize("kind", ["linear", "rotated-product", "lstm"])
def test_more_ids_than_rows(kind):
    coded = table(kind)
    for dtype in (torch.float32, torch.float16):
        layer = CodedEmbedding(coded, padding_idx=1, dtype=dtype)
        expected = full(coded).to(dtype)
        expected[1] = 0
        ids = torch.randint(ROWS, (5, ROWS), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(layer(ids), expected[ids], rtol=1e-3, atol=1e-3)
        with pytest.raises(RowError, match=rf"ids must be in \[0, {ROWS}\), got ids from -1 to"):
            layer(ids - 1)


def test_threads_that_call_at_once_get_right_answers():
    coded = table("rotated-product")
    layer, expected, wrong = CodedEmbedding(coded), full(coded), []

    def call(seed):
        draw = torch.Generator().manual_seed(seed)
        for _ in range(100):
            ids = torch.randint(ROWS, (1100,), generator=draw)
            if not torch.allclose(layer(ids), expected[ids], rtol=1e-4, atol=1e-5):
                wrong.append(seed)

    in_threads(call)
    assert wrong == []


class Operators(TorchDispatchMode):
    """Counts the operators of torch that run."""

    count = 0

    def __torch_dispatch__(self, operator, _types, args=(), kwargs=None):
        self.count += 1
        return operator(*args, **(kwargs or {}))


def test_one_row_takes_few_calls():
    """Counted, so that it is the same on every machine: what a row costs beyond its own numbers."""
    coded, ids = coded_table("linear", "int8", rows=1000, length=16, size=256, dim=100), torch.tensor([7])
    layer = CodedEmbedding(coded)
    layer(ids)
    with Operators() as operators:
        layer(ids)
    assert operators.count <= 3  # of all that torch's operators would take
    assert calls_made(lambda: layer(ids)) <= 27


def test_a_batch_makes_nothing_larger_than_its_vectors():
    layer = CodedEmbedding(coded_table("linear", "int8", rows=5000, length=16, size=16, dim=100))
    ids = torch.randint(5000, (2000,))
    assert largest_tensor_made(lambda: layer(ids)) <= 2000 * 100
