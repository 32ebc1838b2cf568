"""Rows of transform codes within a number of bytes."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.transform.coding import NEAR_ENOUGH, BlocksOfTable, encoded
from kdcode.learning.transform.design import design_codec
from kdcode.options import CompressOptions


@pytest.fixture(scope="module")
def table():
    return kdcode.VectorTable(None, glove_50d().head(1500).matrix)


@pytest.fixture(scope="module", params=[1, 4])
def codec(table, request):
    options = CompressOptions.of(composition="transform", row_bytes=12.0, effort="fast", rows_per_block=request.param)
    return design_codec(table, len(table), options).codec


def coded(codec, table, weights=None):
    blocks = BlocksOfTable.blank(codec, table.matrix, weights)
    blocks.packed[:] = blocks.code(np.arange(len(blocks.packed)))
    return blocks


def error_of(blocks):
    decoded = blocks.codec.decoder(blocks.rows).decode(np.arange(len(blocks.vectors)))
    return float(np.square(decoded - blocks.vectors).sum())


@pytest.mark.parametrize("share", [0.9, 0.99, 0.9999, 1.02, 1.05])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_take_what_they_may_to_the_length_of_a_row(table, codec, share, is_weighted):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(table)) if is_weighted else None
    blocks = coded(codec, table, weights)
    before = error_of(blocks)
    most = round(share * blocks.taken)
    taken = blocks.within_bytes(most)
    to_a_block = most - max(codec.spec.lengths)
    least = to_a_block if share < 1 else min(to_a_block, NEAR_ENOUGH * most)
    assert least <= blocks.taken == taken <= most
    assert (error_of(blocks) > before) == (share < 1)


def test_rows_that_take_nearly_what_they_may_stay(table, codec):
    blocks = coded(codec, table)
    before = blocks.packed.copy()
    blocks.within_bytes(round(1.0003 * blocks.taken))
    np.testing.assert_array_equal(blocks.packed, before)


def test_threads_give_what_one_call_gives(table, codec):
    found, expected = encoded(codec, table.matrix), codec.encode_blocks(table.matrix)
    for name in ("multiples", "numbers", "others", "packed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(np.asarray(coded(codec, table).rows), codec.packed_rows(expected))
