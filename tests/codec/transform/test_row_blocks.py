"""Codes of rows, and of the blocks that they make up."""

import numpy as np
import pytest
from kdcode.codec.transform.row_blocks import BlockCodes, RowBlocks
from kdcode.codec.transform.trellis import transitions
from sample_tables import codes_of, transform_codec

from kdcode import compiled
from kdcode.errors import OptionError

NO_NUMBERS = np.empty((1, 0), np.int64)
"""Of centroids, where there are none."""


def test_a_row_has_its_own_levels_state_and_sides():
    blocks = RowBlocks(rows=3, dim=2, states=4)
    code = BlockCodes(np.array([[1, 4, 0, 3, 2, 0]]), NO_NUMBERS, np.array([5]), np.array([0b110]))
    state = 0
    states = []
    for value in (1, 4, 0, 3, 2, 0):
        states.append(state)
        state = int(transitions(4)[state, (value + 1) // 2 % 2])
    rows = blocks.row_codes(code, np.zeros(3, dtype=np.int64), np.arange(3))
    assert rows.tolist() == [
        [1, 4, states[0], 5, 0b110],  # two sides are known, both of the first row
        [0, 3, states[2], 5, 1],
        [2, 0, states[4], 5, 1],
    ]


def test_a_row_has_the_number_of_its_own_centroid():
    blocks = RowBlocks(rows=3, dim=2, states=4, numbered=True)
    numbers = np.array([[7, 300, 0], [2, 5, 1]])
    code = BlockCodes(np.zeros((2, 6), dtype=np.int64), numbers, np.array([5, 4]), np.array([0b110, 1]))
    rows = blocks.row_codes(code, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]))
    assert rows[:, 2].tolist() == [7, 300, 0, 2, 5]
    assert rows[:, 4].tolist() == [5, 5, 5, 4, 4]
    again = blocks.block_codes(rows)
    assert again.numbers.tolist() == [[7, 300, 0], [2, 5, 0]]  # a row that is missing has the first
    assert blocks.block_codes(rows[:3]).numbers.tolist() == [[7, 300, 0]]
    single = RowBlocks(rows=1, dim=2, states=4, numbered=True)
    code = BlockCodes(np.array([[1, 2], [3, 4]]), np.array([[6], [8]]), np.array([5, 4]), np.array([1, 1]))
    rows = single.row_codes(code, np.arange(2), np.zeros(2, dtype=np.int64))
    assert rows.tolist() == [[1, 2, 6, 5, 1], [3, 4, 8, 4, 1]]
    assert single.block_codes(rows).numbers.tolist() == [[6], [8]]


def test_sides_go_on_in_the_next_row():
    blocks = RowBlocks(rows=3, dim=2, states=4)
    code = BlockCodes(np.zeros((1, 6), dtype=np.int64), NO_NUMBERS, np.array([0]), np.array([0b110110]))
    assert blocks.row_codes(code, np.zeros(3, dtype=np.int64), np.arange(3))[:, -1].tolist() == [0b110, 0b111, 0b10]


@pytest.mark.parametrize(("rows", "dim"), [(1, 5), (2, 7), (16, 2), (64, 1), (5, 20)])
@pytest.mark.parametrize("count", [1, 63, 64, 65])
@pytest.mark.parametrize("centroids", [0, 6])
def test_rows_make_the_blocks_that_they_are_of(rows, dim, centroids, count):
    codec = transform_codec(dim, rows_per_block=rows, centroids=centroids)
    codes = codes_of(codec, count)
    blocks = codec.spec.row_blocks.block_codes(codes)
    assert blocks.values.shape == (-(-count // rows), rows * dim)
    number, place = np.divmod(np.arange(count), rows)
    np.testing.assert_array_equal(codec.spec.row_blocks.row_codes(blocks, number, place), codes)


@pytest.mark.parametrize("centroids", [0, 6])
@pytest.mark.parametrize(("column", "value"), [(-1, 0b101), (-2, 0), (-3, 6)], ids=["sides", "class", "state"])
def test_rows_that_are_no_block_are_refused(column, value, centroids):
    codec = transform_codec(7, rows_per_block=4, centroids=centroids)
    codes = codes_of(codec, 40)
    row = 4 + int(np.flatnonzero(codes[4:, column] != value)[0])
    codes[row, column] = value
    with pytest.raises(OptionError, match=r"row \d does not follow the rows before it; 4 rows are coded together"):
        codec.pack(codes)


def test_some_rows_of_a_table_are_no_blocks():
    codec = transform_codec(7, rows_per_block=4)
    with pytest.raises(OptionError, match="4 rows are coded together here"):
        codec.pack(codes_of(codec, 40)[[0, 1, 6, 7]])


@pytest.mark.parametrize("centroids", [0, 6])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_last_block_may_have_fewer_rows(scale, centroids):
    """What it is filled up with is not seen, and takes no bits of other levels than `pack` writes."""
    random = np.random.default_rng(0)
    codec = transform_codec(7, rows_per_block=16, centroids=centroids)
    vectors = (scale * random.normal(size=(240, 7))).astype(np.float32)
    usual = np.square(codec.decode(codec.encode(vectors)) - vectors).mean()
    for count in (1, 2, 15):
        codes = [codec.encode(vectors[at : at + count]) for at in range(0, 240, count)]
        packed = np.concatenate([codec.pack(some) for some in codes])
        assert np.square(codec.decode_packed(packed) - vectors).mean() < 1.25 * usual


@pytest.mark.parametrize("centroids", [0, 6])
@pytest.mark.parametrize("count", [1, 2, 15])
def test_compiled_code_finds_the_same_last_block(count, centroids):
    codec = transform_codec(7, rows_per_block=16, centroids=centroids)
    vectors = (3 * np.random.default_rng(count).normal(size=(count, 7))).astype(np.float32)
    found = []
    for setting in (compiled.NEVER, compiled.ALWAYS):
        with compiled.using(setting):
            found.append(codec.encode(vectors))
    np.testing.assert_array_equal(*found)
