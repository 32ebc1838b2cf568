"""Codes of rows, and of the blocks that they make up."""

import numpy as np
import pytest
from sample_tables import codes_of, transform_codec

from kdcode import compiled
from kdcode.codec.transform.row_blocks import BlockCodes, RowBlocks
from kdcode.codec.transform.trellis import transitions
from kdcode.errors import OptionError


def test_a_row_has_its_own_levels_state_and_sides():
    blocks = RowBlocks(rows=3, dim=2, states=4)
    code = BlockCodes(np.array([[1, 4, 0, 3, 2, 0]]), np.array([5]), np.array([0b110]))
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


def test_sides_go_on_in_the_next_row():
    blocks = RowBlocks(rows=3, dim=2, states=4)
    code = BlockCodes(np.zeros((1, 6), dtype=np.int64), np.array([0]), np.array([0b110110]))
    assert blocks.row_codes(code, np.zeros(3, dtype=np.int64), np.arange(3))[:, -1].tolist() == [0b110, 0b111, 0b10]


@pytest.mark.parametrize(("rows", "dim"), [(1, 5), (2, 7), (16, 2), (64, 1), (5, 20)])
@pytest.mark.parametrize("count", [1, 63, 64, 65])
def test_rows_make_the_blocks_that_they_are_of(rows, dim, count):
    codec = transform_codec(dim, rows_per_block=rows)
    codes = codes_of(codec, count)
    blocks = codec.spec.row_blocks.block_codes(codes)
    assert blocks.values.shape == (-(-count // rows), rows * dim)
    number, place = np.divmod(np.arange(count), rows)
    np.testing.assert_array_equal(codec.spec.row_blocks.row_codes(blocks, number, place), codes)


@pytest.mark.parametrize(("column", "value"), [(-1, 0b101), (-2, 0), (-3, 6)], ids=["sides", "class", "state"])
def test_rows_that_are_no_block_are_refused(column, value):
    codec = transform_codec(7, rows_per_block=4)
    codes = codes_of(codec, 40)
    assert codes[7, column] != value
    codes[7, column] = value
    with pytest.raises(OptionError, match=r"row \d does not follow the rows before it; 4 rows are coded together"):
        codec.pack(codes)


def test_some_rows_of_a_table_are_no_blocks():
    codec = transform_codec(7, rows_per_block=4)
    with pytest.raises(OptionError, match="4 rows are coded together here"):
        codec.pack(codes_of(codec, 40)[[0, 1, 6, 7]])


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_last_block_may_have_fewer_rows(scale):
    """What it is filled up with is not seen, and takes no bits of other levels than `pack` writes."""
    random = np.random.default_rng(0)
    codec = transform_codec(7, rows_per_block=16)
    vectors = (scale * random.normal(size=(240, 7))).astype(np.float32)
    usual = np.square(codec.decode(codec.encode(vectors)) - vectors).mean()
    for count in (1, 2, 15):
        codes = [codec.encode(vectors[at : at + count]) for at in range(0, 240, count)]
        packed = np.concatenate([codec.pack(some) for some in codes])
        assert np.square(codec.decode_packed(packed) - vectors).mean() < 1.2 * usual


@pytest.mark.parametrize("count", [1, 2, 15])
def test_compiled_code_finds_the_same_last_block(count):
    codec = transform_codec(7, rows_per_block=16)
    vectors = (3 * np.random.default_rng(count).normal(size=(count, 7))).astype(np.float32)
    found = []
    for setting in (compiled.NEVER, compiled.ALWAYS):
        with compiled.using(setting):
            found.append(codec.encode(vectors))
    np.testing.assert_array_equal(*found)
