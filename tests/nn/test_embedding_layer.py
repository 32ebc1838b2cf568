"""What holds for every layer: where its arguments stand, what ids it takes and which it refuses."""

from __future__ import annotations

import inspect

import pytest
import torch
from sample_tables import DTYPES, coded_table

from kdcode.errors import IdTypeError, KdcodeError, OptionError, RowError
from kdcode.nn import CodedEmbedding, CodedEmbeddingBag, KDEmbedding

ROWS = 20
LAYERS = (CodedEmbedding, CodedEmbeddingBag, KDEmbedding)


def layers(dtype="int8", **arguments):
    """One layer of each class over the same table."""
    coded = coded_table("scaled-rotated", dtype, rows=ROWS)
    made = (CodedEmbedding, CodedEmbeddingBag, KDEmbedding.from_coded)
    return [make(coded, **arguments) for make in made]


@pytest.mark.parametrize("make", [*LAYERS, KDEmbedding.from_codes, KDEmbedding.from_coded])
def test_padding_idx_is_the_first_optional_argument_and_device_and_dtype_are_keywords(make):
    arguments = inspect.signature(make).parameters.values()
    first = next(argument for argument in arguments if argument.default is not inspect.Parameter.empty)
    assert (first.name, first.kind, first.default) == ("padding_idx", inspect.Parameter.POSITIONAL_OR_KEYWORD, None)
    keywords = {argument.name: argument.default for argument in arguments if argument.kind == argument.KEYWORD_ONLY}
    assert keywords["device"] is keywords["dtype"] is None
    assert not set(keywords) & {"self", "padding_idx"}


def test_padding_idx_is_taken_by_place_and_by_name():
    coded = coded_table(rows=ROWS)
    for make in (CodedEmbedding, CodedEmbeddingBag, KDEmbedding.from_coded):
        assert make(coded, 3).padding_idx == make(coded, padding_idx=3 - ROWS).padding_idx == 3


@pytest.mark.parametrize("padding", [ROWS, -ROWS - 1])
def test_padding_outside_the_table_is_refused(padding):
    with pytest.raises(OptionError, match=rf"padding_idx must be in \[-{ROWS}, {ROWS}\), got {padding}"):
        layers(padding_idx=padding)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_ids_of_every_integer_type(dtype):
    grid = torch.tensor([[3, 3, 0], [19, 7, 3]])
    for layer in layers(padding_idx=7):
        assert torch.equal(layer(grid.to(dtype)), layer(grid))


@pytest.mark.parametrize("ids", [torch.tensor([[1.0]]), torch.tensor([[True]]), torch.tensor([[1j]]), [[1]], 1, "a"])
def test_ids_that_are_no_integers_are_a_type_error(ids):
    for layer in layers():
        with pytest.raises(IdTypeError, match="ids: expected") as refused:
            layer(ids)
        assert isinstance(refused.value, TypeError)
        assert isinstance(refused.value, KdcodeError)


@pytest.mark.parametrize(("ids", "low", "high"), [([-1], -1, -1), ([ROWS], 20, 20), ([0, 5, -3, 40], -3, 40)])
def test_ids_outside_the_table_are_an_index_error_that_tells_the_limits(ids, low, high):
    for layer in layers():
        with pytest.raises(RowError, match=rf"\[0, {ROWS}\), got ids from {low} to {high}") as refused:
            layer(torch.tensor([ids]))
        assert isinstance(refused.value, IndexError)


def test_ids_on_another_device_are_refused():
    for layer in layers():
        with pytest.raises(OptionError, match=r"ids are on meta, the layer is on cpu; use ids.to\('cpu'\)"):
            layer(torch.zeros(1, 2, dtype=torch.long, device="meta"))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (), (1,)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padding", [None, 0])
def test_empty_and_single_ids(shape, dtype, padding):
    ids = torch.zeros(shape, dtype=torch.long)
    plain, bag, learnable = layers(dtype, padding_idx=padding)
    assert plain(ids).shape == learnable(ids).shape == (*shape, 7)
    if len(shape) == 2:
        assert torch.equal(bag(ids), torch.zeros(shape[0], 7))
    assert torch.equal(bag(ids.flatten()[:0], torch.tensor([0, 0])), torch.zeros(2, 7))


def test_codes_are_those_of_the_table():
    coded = coded_table("scaled-rotated", "int8", rows=ROWS)
    for layer in (*layers(), CodedEmbedding(coded, form="unpacked")):
        assert layer.codes.dtype == torch.int64
        assert layer.codes.tolist() == coded.codes.tolist()


def test_bytes_are_those_of_parameters_and_buffers():
    layer = KDEmbedding(10, 6, codebook_size=8, code_length=3, assignment="free", dtype=torch.float16)
    assert layer.nbytes == 2 * (10 * 3 * 8 + 3 * 8 * 6)


def test_printing_tells_shape_and_padding():
    for layer in layers(padding_idx=2):
        assert f"{ROWS}, 7, padding_idx=2" in repr(layer)
