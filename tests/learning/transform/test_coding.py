"""Rows of transform codes within a number of bytes."""

import numpy as np
import pytest

import kdcode
from kdcode.codec.transform import EncodedBlocks
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


def bytes_of(codec, blocks):
    return int(np.array(codec.spec.lengths)[blocks.classes].sum())


def copy_of(blocks):
    return EncodedBlocks.joined([blocks])


def error_of(codec, blocks, table):
    return float(np.square(codec.decode_packed(codec.packed_rows(blocks)) - table.matrix).sum())


def assert_equal(blocks, others):
    for name in ("multiples", "numbers", "others", "packed"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(others, name))


@pytest.mark.parametrize("share", [0.9, 0.99, 0.9995, 1.02, 1.05])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_take_what_they_may_to_the_length_of_a_row(table, codec, share, is_weighted):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(table)) if is_weighted else None
    blocks = encoded(codec, table.matrix, weights)
    before = error_of(codec, blocks, table)
    most = round(share * bytes_of(codec, blocks))
    taken = within_bytes(codec, table.matrix, weights, blocks, most)
    to_a_block = most - max(codec.spec.lengths)
    least = to_a_block if share < 1 else min(to_a_block, NEAR_ENOUGH * most)
    assert least <= bytes_of(codec, blocks) == taken <= most
    assert (error_of(codec, blocks, table) > before) == (share < 1)


def test_rows_that_take_nearly_what_they_may_stay(table, codec):
    blocks = encoded(codec, table.matrix)
    before = copy_of(blocks)
    within_bytes(codec, table.matrix, None, blocks, round(1.002 * bytes_of(codec, blocks)))
    assert_equal(blocks, before)


def test_threads_give_what_one_call_gives(table, codec):
    assert_equal(encoded(codec, table.matrix), codec.encode_blocks(table.matrix))
