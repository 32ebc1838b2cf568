"""The frozen layers against nn.Embedding and nn.EmbeddingBag over the decoded table."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import coded_table
from torch import nn

from kdcode import bitpack
from kdcode.errors import OptionError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag
from kdcode.nn.coded_embedding import unpack

KINDS = ["linear", "projected", "lstm", "product", "grouped"]


def pair(kind="linear", **arguments):
    """A coded layer and the plain layer it stands for."""
    coded = coded_table(kind, rows=20)
    plain = nn.Embedding.from_pretrained(torch.from_numpy(coded.decode(np.arange(20))))
    return CodedEmbedding(coded, **arguments), plain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["packed", "bytes"])
def test_it_is_the_decoded_embedding(kind, form):
    layer, plain = pair(kind, form=form)
    ids = torch.tensor([[3, 3, 0], [19, 7, 3]])
    torch.testing.assert_close(layer(ids), plain(ids), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.weight, plain.weight, rtol=1e-5, atol=1e-5)
    assert (layer.num_embeddings, layer.embedding_dim) == (20, 6)


def test_packed_codes_are_the_smaller_form():
    coded = coded_table(rows=20, size=4, length=3)
    packed, whole = (CodedEmbedding(coded, form=form).rows.packed for form in ("packed", "bytes"))
    assert (packed.nbytes, whole.nbytes) == (20, 60)


@given(st.integers(1, 16), st.integers(1, 9), st.integers(0, 2**32))
def test_torch_and_numpy_unpack_alike(bits, length, seed):
    values = np.random.default_rng(seed).integers(0, 1 << bits, size=(4, length))
    packed = torch.from_numpy(bitpack.pack(values, bits))
    assert unpack(packed, length, bits).tolist() == values.tolist()


def test_nothing_is_trained_unless_asked():
    frozen, _ = pair()
    assert not any(value.requires_grad for value in frozen.parameters())
    trainable, _ = pair(trainable=True)
    trainable(torch.tensor([1])).sum().backward()
    assert float(trainable.rows.composition.codebook.grad.abs().sum()) > 0


def test_padding_is_zero():
    layer, _ = pair(padding_idx=-2)
    assert layer.padding_idx == 18
    assert torch.equal(layer(torch.tensor([18]))[0], torch.zeros(6))


def test_copies_and_state_dicts():
    layer, _ = pair("lstm")
    other = CodedEmbedding(coded_table("lstm", rows=20, seed=5))
    assert not torch.equal(layer.weight, other.weight)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight, other.weight)
    assert torch.equal(copy.deepcopy(layer).weight, layer.weight)


def test_it_compiles_whole():
    layer, plain = pair()
    ids = torch.tensor([4, 4, 9])
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids), plain(ids), rtol=1e-5, atol=1e-5)


def test_device_moves_take_everything_along():
    layer, _ = pair()
    assert {value.device.type for value in layer.to("meta").state_dict().values()} == {"meta"}


def test_unknown_forms_are_refused():
    with pytest.raises(OptionError, match="packed, bytes"):
        CodedEmbedding(coded_table(), form="zip")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3, 11])
def test_bags_are_those_of_the_decoded_table(kind, mode, padding):
    coded = coded_table(kind, rows=20)
    plain = nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(coded.decode(np.arange(20))), mode=mode, padding_idx=padding
    )
    layer = CodedEmbeddingBag(coded, mode=mode, padding_idx=padding)
    ids, offsets = torch.tensor([3, 3, 0, 19, 7, 3]), torch.tensor([0, 2, 2, 5])
    torch.testing.assert_close(layer(ids, offsets), plain(ids, offsets), rtol=1e-5, atol=1e-5)
    grid = ids.view(2, 3)
    torch.testing.assert_close(layer(grid), plain(grid), rtol=1e-5, atol=1e-5)


def test_bags_take_weights_and_last_offsets():
    coded = coded_table(rows=20)
    plain = nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(coded.decode(np.arange(20))), mode="sum", include_last_offset=True
    )
    layer = CodedEmbeddingBag(coded, mode="sum", include_last_offset=True)
    ids, offsets, weights = torch.tensor([3, 3, 0]), torch.tensor([0, 2, 3]), torch.tensor([0.5, 2.0, -1.0])
    expected = plain(ids, offsets, weights)
    assert expected.shape == (2, 6)
    torch.testing.assert_close(layer(ids, offsets, weights), expected, rtol=1e-5, atol=1e-5)


def test_unknown_modes_are_refused():
    with pytest.raises(OptionError, match="sum, mean, max"):
        CodedEmbeddingBag(coded_table(), mode="median")
