"""Rows of transform codes within a number of bytes."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.transform.coding import NEAR_ENOUGH, encoded, within_bytes
from kdcode.learning.transform.design import design_codec
from kdcode.options import CompressOptions


@pytest.fixture(scope="module")
def table():
    return kdcode.VectorTable(None, glove_50d().head(1500).matrix)


@pytest.fixture(scope="module", params=[1, 4])
def codec(table, request):
    options = CompressOptions.of(composition="transform", row_bytes=12.0, effort="fast", rows_per_block=request.param)
    return design_codec(table, len(table), options).codec


def bytes_of(codec, codes):
    return int(codec.problem.lengths[codes[:: codec.spec.rows_per_block, -2]].sum())


@pytest.mark.parametrize("share", [0.9, 0.99, 0.9995, 1.02, 1.05])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_take_what_they_may_to_the_length_of_a_row(table, codec, share, is_weighted):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(table)) if is_weighted else None
    codes = encoded(codec, table.matrix, weights)
    before = codes.copy()
    most = round(share * bytes_of(codec, codes))
    within_bytes(codec, table.matrix, weights, codes, most)
    least = most - max(codec.spec.lengths) if share < 1 else NEAR_ENOUGH * most
    assert least <= bytes_of(codec, codes) <= most
    change = (
        np.square(codec.compose(codes) - table.matrix).sum() - np.square(codec.compose(before) - table.matrix).sum()
    )
    assert (change > 0) == (share < 1)


def test_rows_that_take_nearly_what_they_may_stay(table, codec):
    codes = encoded(codec, table.matrix)
    before = codes.copy()
    within_bytes(codec, table.matrix, None, codes, round(1.002 * bytes_of(codec, codes)))
    np.testing.assert_array_equal(codes, before)


def test_threads_give_what_one_call_gives(table, codec):
    codes = encoded(codec, table.matrix)
    np.testing.assert_array_equal(codes, codec.encode_weighted(table.matrix, None))
