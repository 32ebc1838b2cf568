"""Rows of different lengths: any of them alone, many at once, from memory and from a file."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kdcode.codec.transform.row_index import index_bytes, index_layout
from sample_tables import coded_table

from kdcode import bitpack, load, save
from kdcode.codec.transform import RaggedRows, RaggedWriter
from kdcode.coded import CodedTable
from kdcode.digests import BLOCK_BYTES
from kdcode.errors import DamagedFileError, OptionError, StorageError
from kdcode.stored_array import BlockChecks
from kdcode.symbols import RowNumbers

pytestmark = pytest.mark.usefixtures("lookup_path")  # with compiled code and without

LENGTHS = (3, 0, 7, 1, 12)


def padded(count, lengths=LENGTHS, seed=0):
    """(count, row bytes) rows of random classes and bytes."""
    random = np.random.default_rng(seed)
    rows = random.integers(1, 256, size=(count, max(lengths) + 1)).astype(np.uint8)
    rows[:, 0] = random.integers(0, len(lengths), size=count)
    rows[:, 1:][np.arange(max(lengths)) >= np.array(lengths)[rows[:, 0], None]] = 0
    return rows


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 9, 17, 33, 100, 130, 256])
def test_rows_are_what_they_were(classes):
    lengths = tuple(int(number) for number in np.random.default_rng(1).integers(0, 40, size=classes))
    rows = padded(1000, lengths)
    ragged = RaggedRows.of(rows, lengths)
    assert ragged.shape == rows.shape
    assert ragged.nbytes == sum(lengths[kind] for kind in rows[:, 0])
    np.testing.assert_array_equal(np.asarray(ragged), rows)
    for row in (0, 1, 7, 8, 255, 256, 257, 999):
        np.testing.assert_array_equal(ragged[row], rows[row])
    assert sum(tensor.nbytes for tensor in ragged.tensors().values()) == ragged.nbytes + index_bytes(1000, classes)
    assert {
        name: (array.dtype.name, array.shape) for name, array in ragged.tensors().items() if name != "codes"
    } == index_layout(1000, classes)
    ragged.check()


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
def test_keys_mean_what_they_mean_to_numpy(lookup_path, count, seed, key):
    rows = padded(count, seed=seed)
    ragged = RaggedRows.of(rows, LENGTHS)
    if isinstance(key, list):
        key = np.array([number % count if number >= 0 else number for number in key], dtype=np.int64)
    np.testing.assert_array_equal(ragged[key], rows[key])


def test_masks_lists_and_arrays_of_two_dimensions():
    rows = padded(300)
    ragged = RaggedRows.of(rows, LENGTHS)
    mask = np.arange(300) % 3 == 0
    np.testing.assert_array_equal(ragged[mask], rows[mask])
    np.testing.assert_array_equal(ragged[[5, -1, 5]], rows[[5, -1, 5]])
    places = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(ragged[places], rows[places])
    np.testing.assert_array_equal(ragged[np.int64(7)], rows[7])
    np.testing.assert_array_equal(ragged[np.arange(5, dtype=np.uint8)], rows[:5])
    assert ragged[np.empty(0, dtype=np.int64)].shape == (0, 13)
    for wrong in (300, -301, [0, 300], np.array([-301]), mask[:5], np.array([0.5])):
        with pytest.raises(IndexError):
            ragged[wrong]


@pytest.mark.parametrize("step", [1, 7, 300])
def test_the_writer_gives_the_same_tensors_in_any_pieces(step):
    rows = padded(700)
    writer = RaggedWriter(LENGTHS)
    pieces = [writer.add(rows[start : start + step]) for start in range(0, 700, step)]
    pieces.append(writer.rest())
    whole = RaggedRows.of(rows, LENGTHS).tensors()
    for name, (dtype, shape) in writer.layout().items():
        found = np.concatenate([piece[name] for piece in pieces]).reshape(shape)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, whole[name])


def test_the_writer_refuses_what_are_no_rows():
    rows = padded(10)
    for change in ((0, 5), (0, 200)):
        wrong = rows.copy()
        wrong[change[0], 0] = change[1]
        with pytest.raises(OptionError, match="codes: found a class"):
            RaggedWriter(LENGTHS).add(wrong)
    wrong = rows.copy()
    wrong[:, 0] = 0
    with pytest.raises(OptionError, match="codes: expected zeros after the end of a row"):
        RaggedWriter(LENGTHS).add(wrong)


def test_no_rows():
    ragged = RaggedRows.of(np.empty((0, 13), np.uint8), LENGTHS)
    assert len(ragged) == 0
    assert np.asarray(ragged).shape == (0, 13)
    ragged.check()
    assert coded_table("transform").codebook().packed.shape == (0, 10)


def test_the_rows_of_each_class():
    rows = padded(500)
    for number, found in enumerate(RaggedRows.of(rows, LENGTHS).of_each_class()):
        own = rows[rows[:, 0] == number]
        np.testing.assert_array_equal(found, own[:, 1 : 1 + LENGTHS[number]])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))])  # noqa: S301
@pytest.mark.parametrize("stored", [True, False])
def test_rows_can_be_copied_and_sent(copied, stored, tmp_path):
    table = coded_table("transform", rows=300)
    if stored:
        save(table, tmp_path / "t.kdc")
        table = load(tmp_path / "t.kdc")
    before = table.packed[:]  # what compiled code keeps must not be sent along
    np.testing.assert_array_equal(copied(table.packed)[:], before)
    again = copied(table)
    np.testing.assert_array_equal(again.decode(np.arange(300)), table.decode(np.arange(300)))


def test_arrays_that_do_not_fit_together():
    tensors = RaggedRows.of(padded(600), LENGTHS).tensors()
    with pytest.raises(StorageError, match=r"codes: \d+ bytes, where the rows end at byte"):
        RaggedRows(
            600, LENGTHS, np.append(tensors["codes"], np.uint8(0)), tensors["row_classes"], tensors["row_starts"]
        )
    with pytest.raises(StorageError, match=r"row_starts: a row ends at byte \d+ of \d+"):
        RaggedRows(600, LENGTHS, tensors["codes"][:-1], tensors["row_classes"], tensors["row_starts"])


def changed_starts(change):
    tensors = {name: np.array(array) for name, array in RaggedRows.of(padded(900), LENGTHS).tensors().items()}
    change(tensors["row_starts"])
    return RaggedRows(900, LENGTHS, **tensors)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_start_is_checked(place):
    def move(starts):
        starts[place] += 1

    with pytest.raises(StorageError, match=f"row_starts: row {256 * place} begins at byte"):
        changed_starts(move).check()


def test_a_row_begins_where_its_start_says():
    """Also one that is read after the row before it: what does not agree is found by a check, and read in one way."""

    def move(starts):
        starts[1] += 2

    ragged = changed_starts(move)
    one_by_one = np.stack([ragged[row] for row in range(200, 300)])
    np.testing.assert_array_equal(ragged[200:300], one_by_one)
    np.testing.assert_array_equal(ragged[np.arange(200, 300)[::-1]], one_by_one[::-1])
    assert (one_by_one[56:] != padded(900)[256:300]).any()


def test_damage_in_the_classes_of_rows_that_follow_each_other(tmp_path):
    """Classes of one run of rows may lie in two blocks of the file; each is checked before it is used."""
    some = coded_table("transform", rows=1000)
    for thousands in range(250, 400, 10):
        table = CodedTable(RowNumbers(1000 * thousands), np.tile(some.packed[:], (thousands, 1)), some.codec)
        save(table, tmp_path / "t.kdc")
        content = bytearray((tmp_path / "t.kdc").read_bytes())
        classes = table.packed.tensors()["row_classes"].tobytes()
        start = content.index(classes)
        border = -(-start // BLOCK_BYTES) * BLOCK_BYTES
        if (border - start) % 96 and start + 96 < border < start + len(classes) - BLOCK_BYTES:  # 96 have 256 classes
            break
    else:
        pytest.fail("no such table")
    content[border + 1] ^= 1
    (tmp_path / "t.kdc").write_bytes(content)
    loaded = load(tmp_path / "t.kdc")
    for name in ("codes", "row_starts"):
        np.asarray(loaded.packed.tensors()[name])  # these are good, and known to be
    row = (border - start) // 3 * 8  # the first whose class may lie beyond
    run = row // 256 * 256
    np.testing.assert_array_equal(loaded.packed[run - 256 : run], table.packed[run - 256 : run])
    with pytest.raises(DamagedFileError, match="do not match their digest"):
        loaded.packed[run : row + 40]


def test_checks_go_over_all_rows_in_chunks(monkeypatch):
    from kdcode.codec.transform import ragged_rows

    monkeypatch.setattr(ragged_rows, "_BLOCKS_AT_ONCE", 1)
    RaggedRows.of(padded(900), LENGTHS).check()

    def move(starts):
        starts[2] += 1

    with pytest.raises(StorageError, match="row_starts: row 512 begins at byte"):
        changed_starts(move).check()


def test_many_rows_are_copied_in_chunks(monkeypatch):
    from kdcode.codec.transform import ragged_rows

    rows = padded(900)
    monkeypatch.setattr(ragged_rows, "_BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(ragged_rows, "_BYTES_AT_ONCE", 100)
    ragged, order = RaggedRows.of(rows, LENGTHS), np.random.default_rng(0).permutation(900)
    np.testing.assert_array_equal(ragged[order], rows[order])


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


def test_classes_take_as_many_bits_as_they_need():
    ragged = RaggedRows.of(padded(64), LENGTHS)
    assert np.asarray(ragged.tensors()["row_classes"]).shape == (8, bitpack.bits_for(5))
