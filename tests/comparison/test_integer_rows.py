import numpy as np
import pytest

from kdcode.comparison.integer_rows import fitting_directions, integer_rows
from kdcode.evaluation import relative_error


def table(rows=9000, dim=6, seed=0):
    """More rows than a chunk has, with variances that fall."""
    return (np.random.default_rng(seed).normal(size=(rows, dim)) * 2.0 ** -np.arange(dim) + 1).astype(np.float32)


def test_by_hand():
    rows = integer_rows(np.array([[127.0, -64.0, 0.2], [0.0, 0.0, 0.0]]), 8, 3)
    assert rows.integers.tolist() == [[127, -64, 0], [0, 0, 0]]
    assert rows.decode() == pytest.approx(np.array([[127, -64, 0], [0, 0, 0]]), rel=1e-3)
    assert integer_rows(np.array([[7.0, -3.0, 1.2]]), 4, 3).integers.tolist() == [[7, -3, 1]]


@pytest.mark.parametrize(("bits", "most"), [(8, 1e-4), (4, 2e-2)])
def test_all_coordinates_are_kept_to_a_step(bits, most):
    vectors = table()
    rows = integer_rows(vectors, bits, 6)
    step = np.abs(vectors).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    assert (np.abs(rows.decode() - vectors) <= 0.51 * step).all()
    assert relative_error(vectors, rows.decode()) < most
    assert rows.basis is None


def test_fewer_directions_are_the_strongest():
    vectors = table() @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0].astype(np.float32)
    variances = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    for kept in (1, 3):
        rows = integer_rows(vectors, 8, kept)
        assert rows.integers.shape == (9000, kept)
        left = variances[kept:].sum() / variances.sum()
        assert relative_error(vectors, rows.decode()) == pytest.approx(left, rel=0.02, abs=2e-4)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_vectors_does_not_matter(unit):
    vectors = table(500)
    for kept in (6, 2):
        plain, scaled = (integer_rows(rows, 8, kept).decode() for rows in (vectors, vectors * np.float32(unit)))
        assert scaled / np.float32(unit) == pytest.approx(plain, rel=1e-2, abs=1e-2)


def test_a_table_of_zeros():
    assert not integer_rows(np.zeros((3, 2)), 8, 2).decode().any()


@pytest.mark.parametrize("bits", [4, 8])
def test_what_fits_is_counted_in_full(bits):
    for most in range(0, 9000, 500):
        found = fitting_directions(100, 50, bits, most)
        row_bytes = [(kept * bits + 7) // 8 + 2 for kept in range(51)]
        sizes = {kept: 100 * row_bytes[kept] + 2 * 50 * (kept + 1) for kept in range(1, 50)} | {50: 100 * row_bytes[50]}
        fitting = [kept for kept, size in sizes.items() if size <= most]
        best = 50 if 50 in fitting else max(fitting, default=None)
        assert found == (None if best is None else (best, sizes[best]))
