"""CodedEmbeddingBag against nn.EmbeddingBag over the decoded table, for every kind of table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sample_tables import CODEWORD_NAMES, KINDS, NAMES, coded_table
from torch import nn

from kdcode.errors import OptionError
from kdcode.nn import CodedEmbeddingBag

ROWS = 20
MODES = ("sum", "mean", "max")


def pair(kind="linear", dtype="float32", *, form="packed", trainable=False, **arguments):
    """A coded layer and the plain layer it stands for."""
    coded = coded_table(kind, dtype, rows=ROWS)
    plain = nn.EmbeddingBag.from_pretrained(torch.from_numpy(coded.decode(np.arange(ROWS))), **arguments)
    return CodedEmbeddingBag(coded, form=form, trainable=trainable, **arguments), plain


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_bags_are_those_of_the_decoded_table(kind, dtype, mode):
    ids, offsets = torch.tensor([3, 3, 0, 19, 7, 3]), torch.tensor([0, 2, 2, 5])
    grid = ids.view(2, 3)
    for form in ("packed", "unpacked"):
        for padding in (None, 3, 11):
            layer, plain = pair(kind, dtype, mode=mode, padding_idx=padding, form=form)
            torch.testing.assert_close(layer(ids, offsets), plain(ids, offsets), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(layer(grid), plain(grid), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_ids_outside_the_table_are_refused(kind, mode):
    for form in ("packed", "unpacked"):
        for padding in (None, 3):
            layer, _ = pair(kind, mode=mode, form=form, padding_idx=padding)
            for ids in ([[-1]], [[ROWS]], [[0, 1], [2, -ROWS]]):
                with pytest.raises(IndexError):
                    layer(torch.tensor(ids))


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 0.02), (torch.bfloat16, 0.1), (torch.float64, 1e-6)])
def test_other_float_types_give_nearly_the_same_bags_and_train(kind, mode, dtype, tolerance):
    layer, plain = pair(kind, mode=mode, trainable=True)
    ids = torch.tensor([[3, 3, 0], [19, 7, 3]])
    out = layer.to(dtype)(ids)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), plain(ids), rtol=tolerance, atol=3 * tolerance)
    out.square().sum().backward()
    assert float(layer.codec.codebook.grad.abs().sum()) > 0


def test_bags_take_weights_and_last_offsets():
    layer, plain = pair(mode="sum", include_last_offset=True)
    ids, offsets, weights = torch.tensor([3, 3, 0]), torch.tensor([0, 2, 3]), torch.tensor([0.5, 2.0, -1.0])
    expected = plain(ids, offsets, weights)
    assert expected.shape == (2, 7)
    torch.testing.assert_close(layer(ids, offsets, weights), expected, rtol=1e-5, atol=1e-5)


def test_offsets_may_be_of_another_integer_type_than_ids():
    layer, plain = pair("rotated-product", "int8")
    ids, offsets = torch.tensor([3, 3, 0]), torch.tensor([0, 2])
    found = layer(ids.int(), offsets.int())
    torch.testing.assert_close(found, plain(ids, offsets), rtol=1e-5, atol=1e-5)


def test_unknown_modes_are_refused():
    with pytest.raises(OptionError, match="sum, mean, max"):
        CodedEmbeddingBag(coded_table(), mode="median")
