"""Tables in which nearly all numbers are exactly zero, so that rows need few bits however many they may have."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.transform.design import design_codec
from kdcode.learning.transform.level_statistics import LevelStatistics
from kdcode.options import CompressOptions


def sparse(rows, dim, share, seed=0):
    """Normal numbers, of which a share is left and the others are zero."""
    random = np.random.default_rng(seed)
    return np.where(random.random((rows, dim)) < share, random.normal(size=(rows, dim)), 0).astype(np.float32)


def design(matrix, row_bytes):
    options = CompressOptions.of(composition="transform", row_bytes=row_bytes, effort="fast")
    return design_codec(kdcode.VectorTable(None, matrix), len(matrix), options, quick=True)


def test_more_bytes_than_rows_can_use_are_not_taken():
    matrix = sparse(1500, 48, 0.05)
    planned = kdcode.plan(matrix, "10x", effort="fast").recommended
    coded = kdcode.compress(matrix, "10x", effort="fast")
    assert coded.spec.composition == "transform"
    assert coded.provenance["relative_error"] < 1e-4
    assert (coded.decode(np.arange(len(matrix)))[matrix == 0] == 0).mean() > 0.999
    assert planned.sizes.embedding < 0.5 * matrix.nbytes / 10
    assert 0.9 * planned.sizes.embedding < coded.sizes.embedding <= planned.sizes.embedding


@pytest.mark.parametrize(("share", "most"), [(0.03, (1e-4, 1e-4, 1e-4)), (0.2, (1e-4, 0.005, 0.12))])
def test_fewer_bytes_lose_more_than_next_to_nothing(share, most):
    matrix = sparse(2000, 48, share)
    found = [design(matrix, 4 * 48 / times) for times in (10, 20, 40)]
    errors = [one.relative_error for one in found]
    assert all(one.is_full for one in found)
    assert all(error < limit for error, limit in zip(errors, most, strict=True))
    assert errors[0] < errors[1] + 1e-4
    assert errors[1] < errors[2] + 1e-4


def test_other_tables_can_use_what_they_are_given():
    found = design(np.asarray(glove_50d().head(1000).matrix), 20.0)
    assert found.enough_bytes == 20_000


def test_zeros_are_expected_at_every_step():
    plain, sparse_one = LevelStatistics(), LevelStatistics(zeros=0.9)
    for found in (plain.computed_counts(30, 50), sparse_one.computed_counts(30, 50)):
        assert found.sum(axis=2) == pytest.approx(1.0)
    assert plain.computed_counts(30, 50)[-1, 0, 0] < 0.1
    assert (sparse_one.computed_counts(30, 50)[:, :, 0] >= 0.9).all()


def test_bits_that_say_which_are_zero():
    assert LevelStatistics().bits_of_zeros == 0
    assert LevelStatistics(zeros=0.5).bits_of_zeros == 1
    assert LevelStatistics(zeros=0.89).bits_of_zeros == pytest.approx(0.5, abs=0.001)
