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
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag

pytestmark = pytest.mark.usefixtures("lookup_path")

ROWS, DIM = 60, 24


def table(kind="linear", dtype="int8", seed=0):
    return coded_table(kind, dtype, rows=ROWS, length=4, size=8, dim=DIM, seed=seed)


def full(coded) -> torch.Tensor:
    return torch.from_numpy(coded.decode(np.arange(len(coded))))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keep", [{"cache": "4KB"}, {"expand_below": "1MB"}, {"cache": 3000, "expand_below": 100}])
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


@pytest.mark.parametrize("keep", [{"cache": "4KB"}, {"expand_below": "1MB"}])
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


@pytest.mark.parametrize("keep", [{}, {"cache": "4KB"}, {"expand_below": "1MB"}])
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


@pytest.mark.parametrize("keep", [{"cache": "4KB"}, {"expand_below": "1MB"}])
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
    layer = CodedEmbedding(table(), cache="8KB")
    assert 0.9 * 8000 < layer.nbytes - plain.nbytes <= 8000
    expanded = CodedEmbedding(table(), expand_below="1MB")
    expanded(torch.tensor([0]))
    assert expanded.nbytes - plain.nbytes == 4 * ROWS * DIM


def test_only_tables_below_the_size_are_expanded():
    whole = 4 * ROWS * DIM
    for size, is_expanded in ((whole, True), (whole - 1, False)):
        layer = CodedEmbedding(table(), expand_below=size)
        layer(torch.tensor([0]))
        assert (layer.expanded is not None) == is_expanded
    half = CodedEmbedding(table(), expand_below=whole // 2, dtype=torch.bfloat16)
    assert half(torch.tensor([0])).dtype == torch.bfloat16
    assert half.expanded is not None


@pytest.mark.parametrize("name", ["cache", "expand_below"])
def test_sizes_that_are_none_and_trained_tables_are_refused(name):
    for wrong in ("20x", "large", 0, -5, True):
        with pytest.raises(OptionError, match=f"{name} must be a size like 64MB, 500KB or a number of bytes, got"):
            CodedEmbedding(table(), **{name: wrong})
    with pytest.raises(OptionError, match=f"{name}: vectors cannot be kept while codewords are trained"):
        CodedEmbedding(table(), trainable=True, **{name: "1MB"})


@pytest.mark.parametrize("keep", [{}, {"cache": "4KB"}, {"expand_below": "1MB"}])
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


def test_tensors_that_are_swapped_for_a_call_count():
    layer, other = CodedEmbedding(table(seed=0)), CodedEmbedding(table(seed=1))
    ids = torch.arange(ROWS)
    close(torch.func.functional_call(layer, other.state_dict(), (ids,)), other(ids))
    close(layer(ids), full(table(seed=0)))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traces_hold_the_table_and_no_answers():
    layer = CodedEmbedding(table())
    traced = torch.jit.trace(layer, torch.tensor([1, 2, 3]), check_trace=False)
    close(traced(torch.tensor([7, 0, 9])), layer(torch.tensor([7, 0, 9])))


def test_inference_mode_and_other_integers():
    layer, expected = CodedEmbedding(table()), full(table())
    with torch.inference_mode():
        close(layer(torch.tensor([3, 4])), expected[[3, 4]])
        made_inside = [CodedEmbedding(table(), **keep) for keep in ({}, {"cache": "4KB"}, {"expand_below": "1MB"})]
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


def test_a_cache_is_asked_where_decoding_takes_long(lookup_path):
    for kind, is_used in (("linear", lookup_path == "plain"), ("rotated-product", True), ("lstm", True)):
        layer = CodedEmbedding(table(kind), cache="8KB")
        for _ in range(3):
            layer(torch.arange(2000) % 20)
        assert (layer._lookup._cache.hits > 0) == is_used


def test_threads_that_call_at_once_get_right_answers():
    coded = table("rotated-product")
    layer, expected, wrong = CodedEmbedding(coded, cache="2KB"), full(coded), []

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


def test_one_row_takes_few_calls(lookup_path):
    """Counted, so that it is the same on every machine: what a row costs beyond its own numbers."""
    coded, ids = coded_table("linear", "int8", rows=1000, length=16, size=256, dim=100), torch.tensor([7])
    layer = CodedEmbedding(coded)
    layer(ids)
    with Operators() as operators:
        layer(ids)
    assert operators.count <= 3  # of all that torch's operators would take
    assert calls_made(lambda: layer(ids)) <= (25 if lookup_path == "compiled" else 120)


def test_a_batch_makes_nothing_larger_than_its_vectors():
    layer = CodedEmbedding(coded_table("linear", "int8", rows=5000, length=16, size=16, dim=100))
    ids = torch.randint(5000, (2000,))
    assert largest_tensor_made(lambda: layer(ids)) <= 2000 * 100


def test_distinct_ids_are_looked_for_only_where_they_must_repeat(monkeypatch):
    seen = []
    real = torch.unique
    monkeypatch.setattr(torch, "unique", lambda *given, **more: seen.append(1) or real(*given, **more))
    layer = CodedEmbedding(table("lstm"))
    layer(torch.randint(ROWS, (ROWS // 2 - 1,)))
    assert not seen
    layer(torch.randint(ROWS, (ROWS,)))
    assert seen
