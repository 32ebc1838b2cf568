import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode.codebook import Codebook
from kdcode.errors import OptionError

ONE = np.array([[[1.0, -2.0], [0.5, 127.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=np.float32)  # (2, 2, 2)


def test_float32_keeps_the_values():
    book = Codebook.of(ONE)
    assert (book.code_length, book.codebook_size, book.codeword_dim, book.number_format) == (2, 2, 2, "float32")
    assert book.nbytes == 32
    np.testing.assert_array_equal(book.values, ONE)


def test_int8_by_hand():
    book = Codebook.of(ONE, "int8")
    assert book.stored.tolist() == [[[1, -2], [0, 127]], [[0, 0], [0, 0]]]  # 0.5 goes to the even neighbour
    np.testing.assert_array_equal(book.scale, [[[1.0]], [[1.0]]])
    assert book.nbytes == 8 + 8
    assert book.values.dtype == np.float32


def test_float16_rounds_and_is_read_back_as_float32():
    book = Codebook.of(ONE * np.float32(1 + 1e-5), "float16")
    assert book.stored.dtype == np.float16
    np.testing.assert_array_equal(book.values, ONE)


@given(stn.arrays(np.float32, (2, 3, 2), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_int8_is_within_half_a_step(values):
    book = Codebook.of(values, "int8")
    assert (np.abs(book.values - values) <= 0.501 * book.scale + 1e-43).all()


@pytest.mark.parametrize("peak", [1e-45, 2.7e-43, 1e-38])
def test_int8_of_values_at_the_edge_of_float32(peak):
    values = np.full((1, 2, 2), peak, dtype=np.float32)
    values[0, 0, 0] *= -1
    book = Codebook.of(values, "int8")
    assert np.sign(book.stored).tolist() in ([[[-1, 1], [1, 1]]], [[[0, 0], [0, 0]]])
    assert np.abs(book.values - values).max() <= values.max()


@pytest.mark.parametrize(
    ("stored", "scale", "message"),
    [
        (np.zeros((2, 4), np.float32), None, r"expected shape .* got \(2, 4\)"),
        (np.zeros((2, 4, 0), np.float32), None, "expected shape"),
        (np.zeros((2, 1, 3), np.float32), None, "2 to 65536 codewords per position, got 1"),
        (np.zeros((1, 65537, 1), np.int8), np.ones((1, 1, 1), np.float32), "got 65537"),
        (np.zeros((2, 4, 3), np.float64), None, "got float64"),
        (np.zeros((2, 4, 3), np.int8), None, "come with scales"),
        (np.zeros((2, 4, 3), np.float16), np.ones((2, 1, 1), np.float32), "without"),
        (np.zeros((2, 4, 3), np.int8), np.ones((2, 4, 1), np.float32), "codebook_scale"),
        (np.zeros((2, 4, 3), np.int8), np.ones((2, 1, 1), np.float64), "codebook_scale"),
        (np.zeros((2, 4, 3), np.int8), np.full((2, 1, 1), np.nan, np.float32), "not finite"),
        (np.zeros((2, 4, 3), np.int8), np.full((2, 1, 1), 3e38, np.float32), "not finite"),
        (np.full((2, 4, 3), np.inf, np.float16), None, "not finite"),
    ],
)
def test_what_cannot_be_stored_is_refused(stored, scale, message):
    with pytest.raises(OptionError, match=message):
        Codebook(stored, scale)


@pytest.mark.parametrize("numbers", ["float32", "float16", "int8"])
def test_shared_codewords_are_kept_once_and_seen_everywhere(numbers):
    values = np.random.default_rng(0).normal(size=(1, 4, 3)).astype(np.float32)
    shared = Codebook.of(values, numbers, shared_by=5)
    assert (shared.code_length, shared.shared, shared.values.shape) == (5, True, (5, 4, 3))
    assert shared.nbytes == Codebook.of(values, numbers).nbytes
    np.testing.assert_array_equal(shared.values[4], Codebook.of(values, numbers).values[0])
    assert not Codebook.of(values, numbers, shared_by=1).shared


def test_only_one_set_of_codewords_can_be_shared():
    with pytest.raises(OptionError, match="shared by 5 positions, expected one set of codewords for at least 1, got 2"):
        Codebook(np.zeros((2, 4, 3), np.float32), None, 5)


def test_rounding_refuses_what_a_format_cannot_hold():
    with pytest.raises(OptionError, match="one of float32, float16, int8, got 'int4'"):
        Codebook.of(ONE, "int4")
    with pytest.raises(OptionError, match="too large for float16"):
        Codebook.of(ONE * 1000, "float16")
    for numbers in ("float32", "float16", "int8"):
        with pytest.raises(OptionError, match="not finite"):
            Codebook.of(np.full((1, 2, 2), np.nan, np.float32), numbers)
        with pytest.raises(OptionError, match="expected shape"):
            Codebook.of(np.ones((2, 2), np.float32), numbers)
