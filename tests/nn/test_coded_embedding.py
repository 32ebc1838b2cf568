"""CodedEmbedding against nn.Embedding over the decoded table, for every kind of table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import CODEWORD_NAMES, KINDS, NAMES, TRANSFORM_NAMES, coded_table
from torch import nn

from kdcode import bitpack
from kdcode.errors import OptionError
from kdcode.nn import CodedEmbedding, KDEmbedding
from kdcode.nn.coded_layer import unpack

ROWS, DIM = 20, 7


def pair(kind="linear", dtype="float32", **arguments):
    """A coded layer and the plain layer it stands for."""
    coded = coded_table(kind, dtype, rows=ROWS)
    plain = nn.Embedding.from_pretrained(torch.from_numpy(coded.decode(np.arange(ROWS))))
    return CodedEmbedding(coded, **arguments), plain


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_it_is_the_decoded_embedding(kind, dtype, form):
    layer, plain = pair(kind, dtype, form=form)
    ids = torch.tensor([[3, 3, 0], [19, 7, 3]])
    torch.testing.assert_close(layer(ids), plain(ids), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.weight, plain.weight, rtol=1e-5, atol=1e-5)
    assert (layer.num_embeddings, layer.embedding_dim) == (ROWS, DIM)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_ids_outside_the_table_are_refused_as_nn_embedding_does(kind, form):
    layer, plain = pair(kind, form=form)
    for ids in ([-1], [ROWS], [[0, 1], [2, -ROWS]], [3, 10**6]):
        for refuses in (layer, plain):
            with pytest.raises(IndexError):
                refuses(torch.tensor(ids))


@pytest.mark.parametrize("form", ["packed", "unpacked"])
@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_transform_codes_serve_other_float_types_and_do_not_train(kind, form):
    for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.1), (torch.float64, 1e-5)):
        layer, plain = pair(kind, form=form)
        ids = torch.tensor([[3, 3, 0], [19, 7, 3]])
        found = layer.to(dtype)(ids)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), plain(ids), rtol=tolerance, atol=tolerance)
    with pytest.raises(OptionError, match="trainable: transform codes have no codewords to train; leave it out, or"):
        pair(kind, form=form, trainable=True)


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 0.02), (torch.bfloat16, 0.1), (torch.float64, 1e-6)])
def test_other_float_types_give_nearly_the_same_vectors_and_train(kind, dtype, tolerance):
    layer, plain = pair(kind, trainable=True)
    ids = torch.tensor([[3, 3, 0], [19, 7, 3]])
    out = layer.to(dtype)(ids)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), plain(ids), rtol=tolerance, atol=tolerance)
    out.square().sum().backward()
    reference = pair(kind, trainable=True)[0]
    reference(ids).square().sum().backward()
    for (name, value), (_, expected) in zip(layer.named_parameters(), reference.named_parameters(), strict=True):
        assert value.grad.dtype == dtype, name
        most = float(expected.grad.abs().max())
        torch.testing.assert_close(value.grad.float(), expected.grad, rtol=0, atol=3 * tolerance * most)


@pytest.mark.parametrize("kind", ["linear", "product", "scaled-linear"])
@pytest.mark.parametrize("size", [3, 256, 257, 1000])
def test_codebooks_of_any_size(kind, size):
    coded = coded_table(kind, rows=ROWS, size=size)
    ids = torch.arange(ROWS)
    for layer in (CodedEmbedding(coded), CodedEmbedding(coded, form="unpacked"), KDEmbedding.from_coded(coded)):
        vectors = layer(ids).detach().numpy()
        np.testing.assert_allclose(vectors, coded.decode(range(ROWS)), rtol=1e-5, atol=1e-5)


def test_packed_codes_are_the_smaller_form():
    coded = coded_table(rows=ROWS, size=4, length=3)
    packed, whole = (CodedEmbedding(coded, form=form).code_rows for form in ("packed", "unpacked"))
    assert (packed.nbytes, whole.nbytes) == (20, 60)


@given(st.lists(st.integers(1, 16), min_size=1, max_size=9), st.integers(0, 2**32))
def test_torch_and_numpy_unpack_alike(widths, seed):
    limits = np.array([1 << bits for bits in widths])
    values = np.random.default_rng(seed).integers(0, limits, size=(4, len(widths)))
    packed = torch.from_numpy(bitpack.pack(values, widths))
    assert unpack(packed, widths).tolist() == values.tolist()


def test_nothing_is_trained_unless_asked():
    frozen, _ = pair()
    assert not any(value.requires_grad for value in frozen.parameters())
    trainable, _ = pair(trainable=True)
    trainable(torch.tensor([1])).sum().backward()
    assert float(trainable.codec.codebook.grad.abs().sum()) > 0


def test_padding_is_zero():
    layer, _ = pair(padding_idx=-2)
    assert layer.padding_idx == 18
    assert torch.equal(layer(torch.tensor([18]))[0], torch.zeros(DIM))
    assert torch.equal(layer.weight[18], torch.zeros(DIM))


def test_unknown_forms_are_refused():
    with pytest.raises(OptionError, match="packed, unpacked"):
        CodedEmbedding(coded_table(), form="zip")
