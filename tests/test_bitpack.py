import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode import bitpack
from kdcode.errors import OptionError


@st.composite
def values_and_bits(draw):
    bits = draw(st.integers(1, 32))
    shape = draw(st.tuples(st.integers(0, 5), st.integers(1, 20)))
    return draw(stn.arrays(np.uint32, shape, elements=st.integers(0, (1 << bits) - 1))), bits


def as_one_number(row, bits):
    """The law of the format, said with one big integer per row."""
    return sum(int(value) << position * bits for position, value in enumerate(row))


@pytest.mark.parametrize(
    ("count", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (256, 8), (257, 9), (65536, 16)]
)
def test_bits_for(count, bits):
    assert bitpack.bits_for(count) == bits


def test_row_bytes_rounds_up():
    assert [bitpack.row_bytes(length, 3) for length in (1, 2, 3, 8)] == [1, 1, 2, 3]


def test_value_dtype_is_the_smallest_that_holds():
    assert [bitpack.value_dtype(bits).name for bits in (1, 8, 9, 16, 17, 32)] == [
        "uint8", "uint8", "uint16", "uint16", "uint32", "uint32",
    ]  # fmt: skip


def test_pack_by_hand():
    assert bitpack.pack(np.array([[1, 2, 3]]), 2).tolist() == [[0b11_10_01]]
    assert bitpack.pack(np.array([[31, 0, 1]]), 5).tolist() == [[0b000_11111, 0b0_00001_00]]
    assert bitpack.pack(np.array([[0xABC, 0x123], [1, 0]]), 12).tolist() == [[0xBC, 0x3A, 0x12], [1, 0, 0]]


@given(values_and_bits())
def test_packed_rows_are_the_bits_of_one_number(drawn):
    values, bits = drawn
    packed = bitpack.pack(values, bits)
    assert packed.shape == (len(values), bitpack.row_bytes(values.shape[1], bits))
    assert [int.from_bytes(row.tobytes(), "little") for row in packed] == [as_one_number(row, bits) for row in values]


@given(values_and_bits())
def test_unpack_undoes_pack(drawn):
    values, bits = drawn
    unpacked = bitpack.unpack(bitpack.pack(values, bits), values.shape[1], bits)
    assert unpacked.dtype == bitpack.value_dtype(bits)
    np.testing.assert_array_equal(unpacked, values)


@given(values_and_bits(), st.data())
def test_value_at_is_one_value_of_a_row(drawn, data):
    values, bits = drawn
    if len(values):
        row = data.draw(st.integers(0, len(values) - 1))
        position = data.draw(st.integers(0, values.shape[1] - 1))
        assert bitpack.value_at(bitpack.pack(values, bits)[row], position, bits) == values[row, position]


def test_bytes_are_not_copied_when_values_are_bytes():
    packed = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert np.shares_memory(bitpack.unpack(packed, 4, 8), packed)


def test_refusals_say_what_was_given():
    with pytest.raises(OptionError, match="do not fit in 2 bits"):
        bitpack.pack(np.array([[4]]), 2)
    with pytest.raises(OptionError, match=r"\[-1, 0\] do not fit"):
        bitpack.pack(np.array([[-1, 0]]), 2)
    with pytest.raises(OptionError, match="float64"):
        bitpack.pack(np.array([[1.5]]), 2)
    with pytest.raises(OptionError, match=r"shape \(3,\)"):
        bitpack.pack(np.arange(3), 2)
    with pytest.raises(OptionError, match=r"2 bytes, got an array of shape \(1, 3\)"):
        bitpack.unpack(np.zeros((1, 3), dtype=np.uint8), 3, 5)
    for bits in (0, 33):
        with pytest.raises(OptionError, match=f"1 to 32, got {bits}"):
            bitpack.pack(np.array([[0]]), bits)
        with pytest.raises(OptionError, match=f"1 to 32, got {bits}"):
            bitpack.unpack(np.zeros((1, 1), dtype=np.uint8), 1, bits)
