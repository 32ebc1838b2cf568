"""Tables of few distinct values: levels lie on the values, and nothing is lost where the bytes allow it."""

import numpy as np
import pytest

import kdcode
from kdcode.learning.transform.plain_basis import even_values


def drawn(values, rows=3000, dim=64):
    return np.random.default_rng(0).choice(np.array(values, dtype=np.float32), size=(rows, dim))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1, 1], (2.0, -1.0)),
        ([-1, 0, 1], (1.0, 0.0)),
        ([0.25, 0.5, 1.25], (0.25, 0.5)),
        ([0, 1, 2.5, 3.1], None),
        ([7], None),
    ],
    ids=str,
)
def test_values_and_their_spacing_are_noticed(values, expected):
    assert even_values(drawn(values)) == expected


def test_other_tables_have_no_spacing():
    assert even_values(np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)) is None


@pytest.mark.parametrize(
    ("values", "size"), [([-1, 1], "20x"), ([-1, 0, 1], "10x"), ([0, 1, 2, 3, 4, 5], "8x")], ids=str
)
def test_nothing_is_lost_where_the_bytes_allow_it(values, size):
    matrix = drawn(values)
    coded = kdcode.compress(matrix, size, effort="fast")
    np.testing.assert_array_equal(coded.decode(np.arange(len(matrix))), matrix)
    assert coded.sizes.embedding <= matrix.nbytes / float(size[:-1])


def test_some_coordinates_are_left_out_where_they_do_not():
    matrix = drawn([-1, 1], rows=20_000)
    coded = kdcode.compress(matrix, composition="transform", row_bytes=4 * 64 / 40, effort="fast")
    assert coded.sizes.embedding <= matrix.nbytes / 40
    assert coded.provenance["relative_error"] < 0.32
    exact = (coded.decode(np.arange(500)) == matrix[:500]).all(axis=0)
    assert 0.68 < exact.mean() < 1
