"""The range coder: what is written is read again, and takes hardly more bits than there is information."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kdcode.codec.transform.range_coder import RangeReader, RangeWriter

from kdcode.codec.transform.level_tables import ESCAPE_BITS, LevelTables, fitted_tables
from kdcode.errors import StorageError

MOST = 400
"""Bytes that no row of these tests exceeds."""


def tables_of(seed):
    random = np.random.default_rng(seed)
    counts = np.exp(-np.arange(12) / random.uniform(0.3, 6, size=(2, 2, 1)))
    return fitted_tables(10_000 * counts, np.zeros((2, 2)))


def written(tables, which, values, sides=None):
    """(n, bytes) rows of (n, d) values and (n,) sides."""
    writer = begun(tables, which, values)
    if sides is not None:
        writer.write_bits(sides)
    return writer.finish()


def begun(tables, which, values):
    """The writer of (n, d) values, before what follows them."""
    writer = RangeWriter(len(values), MOST)
    for position in range(values.shape[1]):
        writer.write(tables, which[:, position], values[:, position])
    return writer


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), length=st.integers(1, 40), data=st.data())
def test_what_is_written_is_read_again(seed, rows, length, data):
    tables, random = tables_of(seed % 7), np.random.default_rng(seed)
    which = random.integers(0, 4, size=(rows, length))
    most = data.draw(st.sampled_from([3, 30, 3000, (1 << ESCAPE_BITS) - 2]))
    values = np.minimum(random.geometric(0.4, size=(rows, length)) - 1, most)
    values[random.random(values.shape) < 0.1] = most
    sides = random.integers(1, 1 << 17, size=rows)
    packed = written(tables, which, values, sides)
    reader = RangeReader(packed)
    for position in range(length):
        np.testing.assert_array_equal(reader.read(tables, which[:, position]), values[:, position])
    counts = np.array([int(number).bit_length() - 1 for number in sides])
    np.testing.assert_array_equal(reader.read_bits(counts), sides)


def information(tables, which, values):
    """(n,) bits of rows."""
    costs, sizes = tables.costs(5000), (values + 1) // 2
    exact = costs[which, sizes]
    escaped = values >= tables.escapes[which]
    excess = np.maximum(values - tables.escapes[which], 0)
    own = 15 - np.log2(tables.sizes[tables.first[which] + np.minimum(values, tables.escapes[which])])
    return np.where(escaped, own + 2 * np.floor(np.log2(excess + 1)) + 1, exact).sum(axis=1)


def coded_bits(packed):
    """(n,) bits of rows up to the last one that is set: the zeros after it need not be stored."""
    numbers = [int.from_bytes(row.tobytes(), "big") for row in packed]
    return np.array(
        [8 * packed.shape[1] - ((number & -number).bit_length() - 1) if number else 0 for number in numbers]
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_row_takes_hardly_more_bits_than_its_information(seed):
    tables, random = tables_of(seed), np.random.default_rng(seed)
    which = random.integers(0, 4, size=(500, 60))
    values = random.geometric(0.4, size=which.shape) - 1
    values[random.random(values.shape) < 0.02] = 500
    needed = information(tables, which, values)
    packed = written(tables, which, values)
    assert (coded_bits(packed) <= np.ceil(needed + 0.1) + 1).all()
    assert coded_bits(packed).mean() < needed.mean() + 1  # on average within a bit
    lengths = np.ceil((needed + 0.1) / 8).astype(np.int64)
    assert (begun(tables, which, values).capacity(lengths) >= np.floor(8 * lengths - needed - 0.1) - 1).all()


def test_what_a_row_has_room_for_fits_and_one_bit_more_does_not():
    tables, random = tables_of(1), np.random.default_rng(1)
    which = random.integers(0, 4, size=(2000, 20))
    values = random.geometric(0.4, size=which.shape) - 1
    lengths = np.ceil((information(tables, which, values) + 8) / 8).astype(np.int64)
    room = begun(tables, which, values).capacity(lengths)
    assert 0 <= room.min() <= room.max() <= 16
    for more, all_fit in ((0, True), (2, False)):
        sides = (1 << room + more) | random.integers(0, 1 << 30, size=2000) % (1 << room + more)
        packed = written(tables, which, values, sides)
        fits = np.array([not row[length:].any() for row, length in zip(packed, lengths, strict=True)])
        assert fits.all() == all_fit


def test_values_may_be_so_rare_that_two_bytes_leave_at_once():
    tables = LevelTables(
        np.array([[1, 1]], np.uint16), np.array([32765, 1, 1] * 2, np.uint16), np.zeros((1, 2), np.uint8)
    )
    values = np.array([[1, 2, 1, 0, 2, 2, 1, 1]])
    which = np.zeros_like(values)
    packed = written(tables, which, values)
    reader = RangeReader(packed)
    assert [int(reader.read(tables, which[:, place])[0]) for place in range(8)] == values[0].tolist()
    assert 100 < coded_bits(packed)[0] < 107  # 7 values of 15 bits


def test_a_carry_runs_through_many_bytes(monkeypatch):
    """Numbers just below a border become one above it, which changes all bytes before."""
    tables, random, full = tables_of(2), np.random.default_rng(0), []
    real = RangeWriter._carry

    def counted(self, rows):
        before = self._bytes.copy() if len(full) < 3 else None
        real(self, rows)
        if before is not None and ((before == 255) & (self._bytes == 0)).any():
            full.append(1)

    monkeypatch.setattr(RangeWriter, "_carry", counted)
    which = random.integers(0, 4, size=(4000, 20))
    values = np.minimum(random.geometric(0.4, size=which.shape) - 1, 12)
    reader = RangeReader(written(tables, which, values))
    for position in range(20):
        np.testing.assert_array_equal(reader.read(tables, which[:, position]), values[:, position])
    assert full  # it did


def test_an_excess_of_too_many_bits_is_refused():
    tables = LevelTables(np.array([[0, 0]], np.uint16), np.array([1, 32767] * 2, np.uint16), np.zeros((1, 2), np.uint8))
    writer = RangeWriter(1, MOST)
    writer.write(tables, np.zeros(1, np.int64), np.array([(1 << ESCAPE_BITS + 1) + 5]))
    with pytest.raises(StorageError, match=f"codes: a level has more than {ESCAPE_BITS} bits"):
        RangeReader(writer.finish()).read(tables, np.zeros(1, np.int64))


def test_a_number_that_stands_for_no_value_is_refused():
    """A range is divided without its remainder: numbers in it have no value."""
    tables, which = tables_of(0), np.zeros((1, 3), np.int64)
    writer = begun(tables, which, np.array([[0, 1, 0]]))
    number = int(writer._low[0] + writer._range[0] - 1)  # the last one of the range
    row = [*writer._bytes[0, : writer._length[0]], *number.to_bytes(4, "big")]
    reader = RangeReader(np.array([row], np.uint8))
    assert [int(reader.read(tables, which[:, 0])[0]) for _ in range(3)] == [0, 1, 0]
    with pytest.raises(StorageError, match="codes: a row is a number that stands for no level"):
        reader.read(tables, which[:, 0])
    reader = RangeReader(np.array([row], np.uint8))
    reader.read(tables, which[:, 0])
    reader.read(tables, which[:, 0])
    reader.read(tables, which[:, 0])
    reader._range |= 1  # an odd range, one number of which is in neither half
    reader._code = reader._range - 1
    with pytest.raises(StorageError, match="codes: a row is a number that stands for no level"):
        reader.read_bits(np.ones(1, np.int64))


def test_bytes_after_the_end_count_as_zero():
    tables, which = tables_of(0), np.zeros(1, np.int64)
    for length in (0, 1, 5):
        reader = RangeReader(np.zeros((1, length), np.uint8))
        assert [int(reader.read(tables, which)[0]) for _ in range(200)] == [0] * 200
