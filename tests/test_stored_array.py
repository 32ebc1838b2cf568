"""Arrays in a file: they index like numpy's, and read nothing that does not match its digest."""

import copy
import gc
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kdc_bytes import with_digests

from kdcode import stored_array
from kdcode.digests import BLOCK_BYTES, DIGEST_BYTES, Digester, block_digest, digest_bytes
from kdcode.errors import DamagedFileError
from kdcode.stored_array import BlockChecks, FileContent, StoredArray

START = 24
"""Where the arrays begin in the files here."""


def stored(path, array, *, mapped=True, trusted=False):
    """An array written to a file with digests, and opened."""
    path.write_bytes(with_digests(bytes(START) + array.tobytes()))
    return opened(path, array.dtype, array.shape, mapped=mapped, trusted=trusted)


def opened(path, dtype, shape, *, mapped=True, trusted=False):
    covered = START + int(np.prod(shape)) * np.dtype(dtype).itemsize
    with path.open("rb") as stream:
        content = FileContent.of(stream, path, mapped=mapped)
    checks = BlockChecks(content, content.data[covered:].reshape(-1, DIGEST_BYTES), covered, trusted=trusted)
    return StoredArray(checks, START, np.dtype(dtype), shape)


@pytest.fixture
def checked(monkeypatch):
    """How often a block was compared with its digest."""
    calls = []

    def counted(block):
        calls.append(len(block))
        return block_digest(block)

    monkeypatch.setattr(stored_array, "block_digest", counted)
    return calls


@given(pieces=st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=4))
def test_digests_do_not_depend_on_the_pieces(pieces):
    digester, whole = Digester(), b""
    for number, length in enumerate(pieces):
        piece = bytes([number + 1]) * length
        digester.update(piece)
        whole += piece
    found = digester.digests()
    assert whole + found.tobytes() == with_digests(whole)
    assert found.nbytes == digest_bytes(len(whole))


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 5)),
    dtype=st.sampled_from(["u1", "<u8", "<f4"]),
    mapped=st.booleans(),
    data=st.data(),
)
def test_it_indexes_like_numpy(tmp_path_factory, shape, dtype, mapped, data):
    true = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    array = stored(tmp_path_factory.mktemp("a") / "t", true, mapped=mapped)
    rows = st.integers(-len(true), len(true) - 1)
    key = data.draw(st.one_of(rows, st.slices(len(true)), st.lists(rows).map(lambda some: np.array(some, int))))
    np.testing.assert_array_equal(array[key], true[key])
    np.testing.assert_array_equal(np.asarray(array), true)
    assert (array.shape, array.dtype, len(array), array.size, array.nbytes) == (
        true.shape,
        true.dtype,
        len(true),
        true.size,
        true.nbytes,
    )


@pytest.mark.parametrize("key", [5, -6, np.array([0, 5]), np.array([-6])])
def test_rows_that_are_not_there(tmp_path, key):
    with pytest.raises(IndexError):
        stored(tmp_path / "t", np.zeros((5, 2), np.uint8))[key]


ROWS_OF_BLOCKS = [
    (0, {0}),
    (1, {0, 1}),  # the first row takes 40,000 of the 65,536 bytes, the second goes on in the next block
    (np.array([3, 3, 0]), {0, 1, 2}),
    (slice(2, 3), {1}),
    (slice(3, 1, -1), {1, 2}),
    (slice(4, 4), set()),
    (np.array([], dtype=int), set()),
]


@pytest.mark.parametrize(("key", "blocks"), ROWS_OF_BLOCKS)
def test_only_blocks_that_are_read_are_checked_and_only_once(tmp_path, checked, key, blocks):
    array = stored(tmp_path / "t", np.arange(200_000, dtype=np.uint8).reshape(5, 40_000))
    array[key]
    assert len(checked) == len(blocks)
    array[key]
    assert len(checked) == len(blocks)
    np.asarray(array)
    assert len(checked) == 4


def test_a_row_of_many_blocks_is_checked_whole(tmp_path, checked):
    array = stored(tmp_path / "t", np.zeros((2, 5 * BLOCK_BYTES), np.uint8))
    array[np.array([0])]
    assert len(checked) == 6


@pytest.mark.parametrize(("key", "blocks"), ROWS_OF_BLOCKS)
@pytest.mark.parametrize("damaged", range(4))
def test_damage_is_found_where_it_is_read(tmp_path, key, blocks, damaged):
    path = tmp_path / "t"
    true = np.arange(200_000, dtype=np.uint8).reshape(5, 40_000)
    stored(path, true)
    content = bytearray(path.read_bytes())
    content[damaged * BLOCK_BYTES + 100] ^= 1
    path.write_bytes(content)
    array = opened(path, true.dtype, true.shape)
    if damaged in blocks:
        first, end = damaged * BLOCK_BYTES, min((damaged + 1) * BLOCK_BYTES, START + 200_000)
        with pytest.raises(DamagedFileError, match=f"t: bytes {first:,} to {end:,} do not match their digest"):
            array[key]
    else:
        np.testing.assert_array_equal(array[key], true[key])
    with pytest.raises(DamagedFileError):
        np.asarray(array)
    np.asarray(opened(path, true.dtype, true.shape, trusted=True))  # asked not to look


def test_a_file_written_to_in_place_is_checked_again(tmp_path, checked):
    path = tmp_path / "t"
    array = stored(path, np.arange(100, dtype=np.uint8).reshape(10, 10))
    array[3]
    later = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))  # the same bytes, whenever they were written
    assert array[3].tolist() == list(range(30, 40))
    assert len(checked) == 2
    with path.open("r+b") as stream:
        stream.seek(START + 35)
        stream.write(b"\0")
    os.utime(path, ns=(later + 1, later + 1))
    with pytest.raises(DamagedFileError, match="do not match their digest"):
        array[0]


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_file_of_another_size_is_not_read(tmp_path, size):
    path = tmp_path / "t"
    true = np.arange(100, dtype=np.uint8).reshape(10, 10)
    array, in_memory = stored(path, true), opened(path, true.dtype, true.shape, mapped=False)
    array[0]
    os.truncate(path, size)
    for key in (0, slice(2), np.array([1])):
        with pytest.raises(DamagedFileError, match=f"t: had 140 bytes when it was opened and has {size} now"):
            array[key]
    np.testing.assert_array_equal(in_memory, true)


def test_a_file_that_is_replaced_lives_on(tmp_path):
    path = tmp_path / "t"
    true = np.arange(100, dtype=np.uint8).reshape(10, 10)
    array = stored(path, true)
    (tmp_path / "new").write_bytes(b"other")
    (tmp_path / "new").replace(path)
    np.testing.assert_array_equal(array, true)


def test_copies_have_their_numbers_in_memory(tmp_path):
    array = stored(tmp_path / "t", np.arange(6, dtype=np.uint8).reshape(2, 3))
    for made in (copy.deepcopy(array), pickle.loads(pickle.dumps(array)), np.array(array)):  # noqa: S301
        assert type(made) is np.ndarray
        assert made.tolist() == [[0, 1, 2], [3, 4, 5]]
        made[0, 0] = 9
    assert array[0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(array)[0, 0] = 9


def test_files_are_closed_with_the_last_array(tmp_path):
    def descriptors():
        gc.collect()
        return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()  # noqa: PTH112, PTH208

    before = descriptors()
    array = stored(tmp_path / "t", np.zeros((2, 2), np.uint8))
    row = array[0]
    del array
    assert row.tolist() == [0, 0]
    del row
    assert descriptors() == before
