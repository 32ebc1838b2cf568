"""Rows of blocks: any of them in any order, from memory and from a file, and what tells where they are."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import coded_table, codes_of, decode_packed, transform_codec

from kdcode import load, save
from kdcode.codec.transform.rows import BlockRows, BlockWriter, index_bytes, index_layout
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, StorageError
from kdcode.stored_array import BlockChecks
from kdcode.symbols import RowNumbers

LENGTHS = (3, 0, 7, 1, 12)
ROWS = 41


def padded(count, lengths=LENGTHS, seed=0):
    """(count, row bytes) rows of random classes and bytes."""
    random = np.random.default_rng(seed)
    rows = random.integers(1, 256, size=(count, max(lengths) + 1)).astype(np.uint8)
    rows[:, 0] = random.integers(0, len(lengths), size=count)
    rows[:, 1:][np.arange(max(lengths)) >= np.array(lengths)[rows[:, 0], None]] = 0
    return rows


def tensors_of(rows, lengths=LENGTHS, together=1, pieces=None):
    """The tensors of packed rows that are written in pieces of some lengths."""
    writer, found, start = BlockWriter(lengths, together), [], 0
    for length in pieces or [len(rows)]:
        found.append(writer.add(rows[start : start + length]))
        start += length
    found.append(writer.rest())
    return {
        name: np.concatenate([piece[name] for piece in found if name in piece]).reshape(shape).astype(dtype)
        for name, (dtype, shape) in writer.layout().items()
    }


def blocks_of(rows, lengths=LENGTHS):
    return BlockRows(len(rows), lengths, 1, tensors_of(rows, lengths))


# Rows that are blocks


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 9, 16, 17, 33, 100, 130, 256])
def test_rows_are_what_they_were(classes):
    lengths = tuple(int(number) for number in np.random.default_rng(1).integers(0, 40, size=classes))
    rows = padded(1000, lengths)
    found = blocks_of(rows, lengths)
    assert found.shape == rows.shape
    assert found.nbytes == sum(lengths[own] for own in rows[:, 0])
    np.testing.assert_array_equal(np.asarray(found), rows)
    for row in (0, 1, 7, 8, 255, 256, 257, 999):
        np.testing.assert_array_equal(found[row], rows[row])
    assert found.index_bytes == index_bytes(1000, classes)
    assert {
        name: (array.dtype.name, array.shape) for name, array in found.tensors().items() if name != "codes"
    } == index_layout(1000, classes)
    found.check()


@given(
    count=st.integers(1, 600),
    seed=st.integers(0, 1000),
    key=st.one_of(
        st.slices(600),
        st.lists(st.integers(-1, 0), max_size=30),
        st.lists(st.integers(0, 599), max_size=30),
        st.integers(-1, 0),
    ),
)
def test_keys_mean_what_they_mean_to_numpy(count, seed, key):
    rows = padded(count, seed=seed)
    if isinstance(key, list):
        key = np.array([number % count if number >= 0 else number for number in key], dtype=np.int64)
    np.testing.assert_array_equal(blocks_of(rows)[key], rows[key])


def test_masks_lists_and_arrays_of_two_dimensions():
    rows = padded(300)
    found = blocks_of(rows)
    mask = np.arange(300) % 3 == 0
    places = np.arange(12).reshape(3, 4)
    for key in (mask, [5, -1, 5], places, np.int64(7), np.arange(5, dtype=np.uint8)):
        np.testing.assert_array_equal(found[key], rows[key])
    assert found[np.empty(0, dtype=np.int64)].shape == (0, 13)
    for wrong in (300, -301, [0, 300], np.array([-301]), mask[:5], np.array([0.5])):
        with pytest.raises(IndexError):
            found[wrong]


@pytest.mark.parametrize("step", [1, 7, 300])
def test_the_writer_gives_the_same_tensors_in_any_pieces(step):
    rows = padded(700)
    found = tensors_of(rows, pieces=[step] * (700 // step) + [700 % step])
    for name, array in tensors_of(rows).items():
        np.testing.assert_array_equal(found[name], array)


def test_the_writer_refuses_what_are_no_rows():
    rows = padded(10)
    for own in (5, 200):
        wrong = rows.copy()
        wrong[0, 0] = own
        with pytest.raises(OptionError, match="codes: found a class"):
            BlockWriter(LENGTHS, 1).add(wrong)
    wrong = rows.copy()
    wrong[:, 0] = 0
    with pytest.raises(OptionError, match="codes: expected zeros after the end of a row"):
        BlockWriter(LENGTHS, 1).add(wrong)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))])  # noqa: S301
@pytest.mark.parametrize("stored", [True, False])
def test_rows_can_be_copied_and_sent(copied, stored, tmp_path):
    table = coded_table("transform", rows=300)
    if stored:
        save(table, tmp_path / "t.kdc")
        table = load(tmp_path / "t.kdc")
    before = table.packed[:]
    np.testing.assert_array_equal(copied(table.packed)[:], before)
    np.testing.assert_array_equal(copied(table).decode(np.arange(300)), table.decode(np.arange(300)))


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_every_start_is_checked(place):
    tensors = tensors_of(padded(900))
    tensors["row_starts"][place] += 1
    with pytest.raises(StorageError, match="row_starts: a block begins where the blocks before it do not end"):
        BlockRows(900, LENGTHS, 1, tensors).check()


@pytest.mark.parametrize("more", [1, -1])
def test_bytes_that_are_too_many_or_too_few_are_found(more):
    tensors = tensors_of(padded(900))
    tensors["codes"] = np.resize(tensors["codes"], len(tensors["codes"]) + more)
    with pytest.raises(StorageError, match="codes: the bytes end before the last block, or go on after it"):
        BlockRows(900, LENGTHS, 1, tensors).check()


@pytest.mark.parametrize("lengths", [LENGTHS, (4,)])
@pytest.mark.parametrize("name", ["codes", "row_classes", "row_starts"])
@pytest.mark.parametrize("more", [1, -1, 8, -8])
def test_tensors_that_are_not_those_of_so_many_rows_are_refused(lengths, name, more):
    """Sizes that the core would have to trust: issue 35, point 2."""
    rows = padded(600, lengths)
    tensors = tensors_of(rows if len(lengths) > 1 else rows[:, 1:], lengths)
    if name not in tensors or (name == "codes" and len(lengths) > 1):
        return  # their bytes follow from classes, and are checked as they are read
    flat = tensors[name].reshape(-1)
    tensors[name] = np.resize(flat, max(0, len(flat) + more))
    with pytest.raises(StorageError, match=name):
        BlockRows(600, lengths, 1, tensors)


@pytest.mark.parametrize("count", [0, 599, 601, 592, 1 << 40])
def test_numbers_of_rows_that_tensors_are_not_of_are_refused(count):
    tensors = tensors_of(padded(600))
    if count in (599,):  # as many groups of classes, and as many starts
        with pytest.raises(StorageError, match="codes: the bytes end before the last block, or go on"):
            BlockRows(count, LENGTHS, 1, tensors).check()
        return
    with pytest.raises(StorageError, match=r"rows|row_classes, row_starts: their sizes"):
        BlockRows(count, LENGTHS, 1, tensors)


def test_only_the_blocks_that_are_read_are_checked(tmp_path, monkeypatch):
    """A row of a large file: its start, its classes and its bytes, each in one block."""
    table = coded_table("transform", rows=100_000)
    save(table, tmp_path / "t.kdc")
    loaded, checked = load(tmp_path / "t.kdc"), []
    real = BlockChecks._check_block

    def counting(self, number):
        checked.append(number)
        real(self, number)

    monkeypatch.setattr(BlockChecks, "_check_block", counting)
    np.testing.assert_array_equal(loaded.packed[50_000], table.packed[50_000])
    assert 1 <= len(checked) <= 4
    loaded.packed[50_000]
    assert len(checked) <= 4
    np.testing.assert_array_equal(loaded.packed[:], table.packed[:])
    assert len(set(checked)) == len(checked) > 4


def test_the_rows_of_each_class():
    rows = padded(500)
    for number, found in enumerate(blocks_of(rows).of_each_class()):
        own = rows[rows[:, 0] == number]
        np.testing.assert_array_equal(found, own[:, : 1 + LENGTHS[number]])


@pytest.mark.parametrize("kind", ["transform", "transform-plain", "transform-blocks", "transform-centroids-blocks"])
def test_rows_with_the_same_code_are_counted(kind):
    table = coded_table(kind, rows=60)
    packed = table.packed[np.repeat(np.arange(60), [3] * 10 + [1] * 50)]
    chosen = CodedTable(RowNumbers(80), packed, table.codec)
    _, counts = np.unique(chosen.codes, axis=0, return_counts=True)
    assert chosen.shared_codes == counts[counts > 1].sum() >= 30


# Rows that share blocks


@pytest.fixture(params=[False, True], ids=["ragged", "plain"])
def codec(request):
    return transform_codec(7, plain=request.param, rows_per_block=4)


@pytest.fixture
def packed(codec):
    return codec.pack(codes_of(codec, ROWS))


def breaks_of(rows):
    return rows.tensors()["row_breaks"].tolist()


def test_rows_of_shared_blocks_are_read_as_from_an_array(codec, packed):
    rows = codec.stored_rows(packed)
    assert isinstance(rows, BlockRows)
    assert breaks_of(rows) == [[0, 0]]
    assert rows.nbytes < packed.nbytes / 3
    mask = np.arange(ROWS) % 3 == 0
    for key in (7, -1, slice(3, 30, 5), [40, 2, 2, 3], np.array([[1, 2], [3, 4]]), mask):
        np.testing.assert_array_equal(rows[key], packed[key])
    np.testing.assert_array_equal(np.asarray(rows), packed)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(rows))), packed)  # noqa: S301 - made here


@pytest.mark.parametrize(
    ("chosen", "breaks"),
    [
        ([0, 1, 2, 3, 8, 9], [[0, 0]]),  # whole blocks follow one another
        ([1, 2, 3, 4], [[0, 1]]),  # from the middle of a block on
        ([5, 4, 7], [[0, 1], [1, 4], [2, 11]]),  # never back within a block
        ([0, 1, 40], [[0, 0], [2, 4]]),
        ([3, 3], [[0, 3], [1, 7]]),
    ],
)
def test_chosen_rows_stay_what_they_are(codec, packed, chosen, breaks):
    rows = codec.stored_rows(packed[chosen])
    assert breaks_of(rows) == breaks
    np.testing.assert_array_equal(np.asarray(rows), packed[chosen])
    np.testing.assert_array_equal(codec.unpack(packed[chosen]), codec.unpack(packed)[chosen])
    again = codec.rows_of_tensors(codec.row_tensors(rows), len(rows))
    np.testing.assert_array_equal(np.asarray(again), packed[chosen])


@pytest.mark.parametrize("pieces", [[1] * ROWS, [3, 5, 33], [40, 1], [0, 20, 0, 21]])
def test_rows_may_be_written_in_any_pieces(codec, packed, pieces):
    tensors = tensors_of(packed, codec.spec.lengths, 4, pieces)
    assert tensors["row_breaks"].tolist() == [[0, 0]]
    np.testing.assert_array_equal(np.asarray(codec.rows_of_tensors(tensors, ROWS)), packed)


def test_rows_that_others_are_appended_to_begin_a_new_block(codec, packed):
    both = np.concatenate([packed, packed[:8]])
    rows = codec.stored_rows(both)
    assert breaks_of(rows) == [[0, 0], [41, 44]]
    np.testing.assert_array_equal(np.asarray(rows), both)
    np.testing.assert_array_equal(decode_packed(codec, both)[41:], decode_packed(codec, packed)[:8])


def test_a_place_that_there_is_not_is_refused(codec, packed):
    packed[5, 0] = 4
    with pytest.raises(OptionError, match="a row at place 4 of a block, expected less: 4"):
        codec.row_writer().add(packed)


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
def test_breaks_that_no_table_has_are_refused(codec, packed, breaks):
    tensors = codec.row_tensors(codec.stored_rows(packed))
    wrong = {**tensors, "row_breaks": np.array(breaks, dtype=np.uint64)}
    with pytest.raises(StorageError, match="row_breaks"):
        codec.rows_of_tensors(wrong, ROWS)


def test_blocks_that_are_missing_are_refused(codec, packed):
    tensors = dict(codec.row_tensors(codec.stored_rows(packed)))
    tensors["codes"] = tensors["codes"][:-1]
    with pytest.raises(StorageError, match=r"^codes: "):
        codec.rows_of_tensors(tensors, ROWS).check()
