import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode import bitpack
from kdcode.errors import OptionError


@st.composite
def values_and_widths(draw):
    """Rows of columns that may differ in width."""
    same = draw(st.booleans())
    widths = draw(st.lists(st.integers(1, 32), min_size=1, max_size=20))
    if same:
        widths = widths[:1] * len(widths)
    rows = draw(st.integers(0, 5))
    columns = [draw(stn.arrays(np.uint32, rows, elements=st.integers(0, (1 << bits) - 1))) for bits in widths]
    return np.stack(columns, axis=1), widths


def as_one_number(row, widths):
    """The specification of the format, said with one big integer per row."""
    places = np.cumsum([0, *widths[:-1]]).tolist()
    return sum(int(value) << place for value, place in zip(row, places, strict=True))


@pytest.mark.parametrize(
    ("count", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (256, 8), (257, 9), (65536, 16)]
)
def test_bits_for(count, bits):
    assert bitpack.bits_for(count) == bits


def test_row_bytes_rounds_up():
    assert [bitpack.row_bytes([3] * length) for length in (1, 2, 3, 8)] == [1, 1, 2, 3]
    assert bitpack.row_bytes([5, 3]) == 1
    assert bitpack.row_bytes([5, 4]) == 2


def test_value_dtype_is_the_smallest_that_holds():
    assert [bitpack.value_dtype(bits).name for bits in (1, 8, 9, 16, 17, 32)] == [
        "uint8", "uint8", "uint16", "uint16", "uint32", "uint32",
    ]  # fmt: skip


def test_pack_by_hand():
    assert bitpack.pack(np.array([[1, 2, 3]]), [2] * 3).tolist() == [[0b11_10_01]]
    assert bitpack.pack(np.array([[31, 0, 1]]), [5] * 3).tolist() == [[0b000_11111, 0b0_00001_00]]
    assert bitpack.pack(np.array([[0xABC, 0x123], [1, 0]]), [12] * 2).tolist() == [[0xBC, 0x3A, 0x12], [1, 0, 0]]
    assert bitpack.pack(np.array([[1, 2, 5]]), [2, 2, 3]).tolist() == [[0b101_10_01]]


@given(values_and_widths())
def test_packed_rows_are_the_bits_of_one_number(drawn):
    values, widths = drawn
    packed = bitpack.pack(values, widths)
    assert packed.shape == (len(values), -(-sum(widths) // 8))
    assert [int.from_bytes(row.tobytes(), "little") for row in packed] == [as_one_number(row, widths) for row in values]


@given(values_and_widths())
def test_unpack_undoes_pack(drawn):
    values, widths = drawn
    unpacked = bitpack.unpack(bitpack.pack(values, widths), widths)
    assert unpacked.dtype == bitpack.value_dtype(max(widths))
    np.testing.assert_array_equal(unpacked, values)


@given(values_and_widths(), st.data())
def test_bits_after_the_last_value_are_not_read(drawn, data):
    values, widths = drawn
    packed = bitpack.pack(values, widths)
    spare = -sum(widths) % 8
    if len(values) and spare:
        packed[:, -1] |= data.draw(st.integers(0, (1 << spare) - 1)) << (8 - spare)
    np.testing.assert_array_equal(bitpack.unpack(packed, widths), values)


@given(values_and_widths(), st.data())
def test_value_at_is_one_value_of_a_row_of_equal_widths(drawn, data):
    values, widths = drawn
    if len(values) and len(set(widths)) == 1:
        row = data.draw(st.integers(0, len(values) - 1))
        position = data.draw(st.integers(0, values.shape[1] - 1))
        packed = bitpack.pack(values, widths)[row].tobytes()
        assert bitpack.value_at(packed, position, widths[0]) == values[row, position]


@given(st.integers(1, 32), st.data())
def test_rows_of_eight_values_are_one_row_of_all_of_them(bits, data):
    values = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=24, max_size=24)))
    packed = bitpack.pack(values.reshape(3, 8), [bits] * 8).tobytes()
    assert [bitpack.value_at(packed, position, bits) for position in range(24)] == values.tolist()


def test_bytes_are_not_copied_when_values_are_bytes():
    packed = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert np.shares_memory(bitpack.unpack(packed, [8] * 4), packed)


def test_refusals_say_what_was_given():
    with pytest.raises(OptionError, match="the value 4 in row 0, column 1 does not fit in 2 bits"):
        bitpack.pack(np.array([[0, 4]]), [3, 2])
    with pytest.raises(OptionError, match="the value -1 in row 1, column 0 does not fit in 2 bits"):
        bitpack.pack(np.array([[0, 0], [-1, 0]]), [2, 2])
    with pytest.raises(OptionError, match=r"expected integers.* with 2 dimensions; got float64 of shape \(1, 1\)"):
        bitpack.pack(np.array([[1.5]]), [2])
    with pytest.raises(OptionError, match=r"with 2 dimensions; got int64 of shape \(3,\)"):
        bitpack.pack(np.arange(3), [2])
    with pytest.raises(OptionError, match=r"the values must have shape \(1, 2\), got \(1, 3\)"):
        bitpack.pack(np.zeros((1, 3), dtype=np.int64), [2, 2])
    with pytest.raises(OptionError, match=r"the packed rows must have shape \(1, 2\), got \(1, 3\)"):
        bitpack.unpack(np.zeros((1, 3), dtype=np.uint8), [5] * 3)
    for widths in ([], [0], [33], [4, 0], [4, 33], [-1], [256]):
        with pytest.raises(OptionError, match="1 to 32 bits each, got widths"):
            bitpack.pack(np.zeros((1, len(widths)), dtype=np.int64), widths)
        with pytest.raises(OptionError, match="1 to 32 bits each, got widths"):
            bitpack.unpack(np.zeros((1, 1), dtype=np.uint8), widths)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_all_types_of_integers_are_packed(dtype):
    values = np.arange(12, dtype=dtype).reshape(4, 3)[:, :2]  # not contiguous
    np.testing.assert_array_equal(bitpack.unpack(bitpack.pack(values, [7, 4]), [7, 4]), values)
    with pytest.raises(OptionError, match="the value 9 in row 3, column 0"):
        bitpack.pack(values, [3, 4])


def test_what_is_too_large_for_a_signed_number_does_not_fit():
    with pytest.raises(OptionError, match="the value 18446744073709551615"):
        bitpack.pack(np.array([[2**64 - 1]], dtype=np.uint64), [32])


def test_value_at_reads_no_byte_that_is_not_there():
    assert bitpack.value_at(bytes([0, 0x80]), 15, 1) == 1
    for packed, position, bits in ((b"", 0, 1), (b"abc", 12, 2), (b"abc", 0, 25), (b"abcd", 1, 32)):
        with pytest.raises(OptionError, match="none at this position"):
            bitpack.value_at(packed, position, bits)
    for bits in (0, 33):
        with pytest.raises(OptionError, match="1 to 32 bits"):
            bitpack.value_at(b"abcdefgh", 0, bits)


def test_many_rows_are_packed_part_by_part(monkeypatch):
    monkeypatch.setattr(bitpack, "_VALUES_A_CALL", 8)
    values = np.random.default_rng(0).integers(0, 32, size=(11, 3))
    packed = bitpack.pack(values, [5] * 3)
    assert packed.tolist() == [list(as_one_number(row, [5] * 3).to_bytes(2, "little")) for row in values]
    np.testing.assert_array_equal(bitpack.unpack(packed, [5] * 3), values)
