"""Packed rows of blocks: any of them in any order, and what tells where they are."""

import pickle

import numpy as np
import pytest
from kdcode.codec.transform.blocked_rows import BlockedRows, checked_breaks
from sample_tables import codes_of, transform_codec

from kdcode.errors import OptionError, StorageError

ROWS = 41


@pytest.fixture(params=[False, True], ids=["ragged", "plain"])
def codec(request):
    return transform_codec(7, plain=request.param, rows_per_block=4)


@pytest.fixture
def packed(codec):
    return codec.pack(codes_of(codec, ROWS))


def breaks_of(codec, packed):
    return codec.stored_rows(packed).breaks.tolist()


def test_rows_are_read_as_from_an_array(codec, packed):
    rows = codec.stored_rows(packed)
    assert isinstance(rows, BlockedRows)
    assert rows.breaks.tolist() == [[0, 0]]
    assert len(rows.blocks) == 11
    assert rows.nbytes < packed.nbytes / 3
    mask = np.arange(ROWS) % 3 == 0
    for key in (7, -1, slice(3, 30, 5), [40, 2, 2, 3], np.array([[1, 2], [3, 4]]), mask):
        np.testing.assert_array_equal(rows[key], packed[key])
    np.testing.assert_array_equal(np.asarray(rows), packed)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(rows))), packed)  # noqa: S301 - made here


@pytest.mark.parametrize(
    ("chosen", "breaks", "blocks"),
    [
        ([0, 1, 2, 3, 8, 9], [[0, 0]], 2),  # whole blocks follow one another
        ([1, 2, 3, 4], [[0, 1]], 2),  # from the middle of a block on
        ([5, 4, 7], [[0, 1], [1, 4], [2, 11]], 3),  # never back within a block
        ([0, 1, 40], [[0, 0], [2, 4]], 2),
        ([3, 3], [[0, 3], [1, 7]], 2),
    ],
)
def test_chosen_rows_stay_what_they_are(codec, packed, chosen, breaks, blocks):
    rows = codec.stored_rows(packed[chosen])
    assert rows.breaks.tolist() == breaks
    assert len(rows.blocks) == blocks
    np.testing.assert_array_equal(np.asarray(rows), packed[chosen])
    again = codec.rows_of_tensors(codec.row_tensors(rows), len(rows))
    np.testing.assert_array_equal(np.asarray(again), packed[chosen])


@pytest.mark.parametrize("pieces", [[1] * ROWS, [3, 5, 33], [40, 1], [0, 20, 0, 21]])
def test_rows_may_be_written_in_any_pieces(codec, packed, pieces):
    writer, found, start = codec.row_writer(), [], 0
    for length in pieces:
        found.append(writer.add(packed[start : start + length]))
        start += length
    found.append(writer.rest())
    tensors = {
        name: np.concatenate([piece[name] for piece in found if name in piece]).reshape(shape)
        for name, (_, shape) in writer.layout().items()
    }
    assert tensors["row_breaks"].tolist() == [[0, 0]]
    np.testing.assert_array_equal(np.asarray(codec.rows_of_tensors(tensors, ROWS)), packed)


def test_rows_that_others_are_appended_to_begin_a_new_block(codec, packed):
    both = np.concatenate([packed, packed[:8]])
    assert breaks_of(codec, both) == [[0, 0], [41, 44]]
    np.testing.assert_array_equal(np.asarray(codec.stored_rows(both)), both)


def test_a_place_that_there_is_not_is_refused(codec, packed):
    packed[5, 0] = 4
    with pytest.raises(OptionError, match="a row at place 4 of a block, expected less: 4"):
        codec.row_writer().add(packed)
    with pytest.raises(StorageError, match="a row at place 4 of a block of 4"):
        codec.unpack(packed)


@pytest.mark.parametrize(
    "breaks",
    [
        np.empty((0, 2), np.uint64),
        [[1, 0]],  # not of row 0
        [[0, 4]],  # a block before it has no row
        [[0, 0], [10, 3]],  # slots fall
        [[0, 0], [10, 9]],  # two rows in one slot
        [[0, 0], [10, 17]],  # block 3 has no row
        [[0, 0], [10, 12], [10, 13]],  # rows do not rise
        [[0, 0], [10, 12], [5, 30]],
        [[0, 0], [41, 44]],  # there is no row 41
        [[0, 0], [10, 2**60]],
        [[0, 0], [2**63, 2**63]],
    ],
)
def test_breaks_that_no_table_has_are_refused(breaks):
    with pytest.raises(StorageError, match="row_breaks"):
        checked_breaks(np.array(breaks, dtype=np.uint64), 41, 4)


def test_breaks_tell_how_many_blocks_there_are():
    for breaks, blocks in (([[0, 0]], 11), ([[0, 3]], 11), ([[0, 0], [10, 12]], 11), ([[0, 0], [9, 12]], 11)):
        assert checked_breaks(np.array(breaks, dtype=np.uint64), 41, 4)[1] == blocks
    assert checked_breaks(np.array([[0, 0], [1, 4], [2, 8]], dtype=np.uint64), 41, 4)[1] == 12


def test_blocks_that_are_missing_are_refused(codec, packed):
    tensors = codec.row_tensors(codec.stored_rows(packed))
    with pytest.raises(StorageError, match=r"^codes: 10 blocks, expected 11|^row_starts: a row ends at byte"):
        codec.rows_of_tensors({**tensors, "codes": tensors["codes"][:-1]}, ROWS)
