import numpy as np
import pytest
from sample_tables import NAMES, coded_table

from kdcode import VectorTable
from kdcode.errors import TableError
from kdcode.evaluation import TableComparison, evaluate, relative_error


def table(rows):
    return VectorTable(None, np.array(rows, dtype=np.float32))


def test_a_perfect_copy_loses_nothing():
    original = table([[3, 4], [0, 0], [1, -1]])
    assert evaluate(original, original) == TableComparison(0.0, pytest.approx(1.0), 0.0)


def test_by_hand():
    # Mean (1, 1); variance 2 + 2 = 4. Errors: 1 and 4, so 5/4. Cosines: 0 where one row is zero, and 1/√2.
    found = evaluate(table([[0, 0], [2, 2]]), table([[1, 0], [2, 0]]))
    assert found.relative_error == pytest.approx(5 / 4)
    assert found.mean_cosine == pytest.approx((0 + 0.5**0.5) / 2)
    assert found.norm_error == pytest.approx((8**0.5 - 2) / 8**0.5)  # the zero row is left out
    assert found.as_dict() == {
        "relative_error": found.relative_error,
        "mean_cosine": found.mean_cosine,
        "norm_error": found.norm_error,
    }


def test_norm_error_is_the_mean_over_rows_that_are_not_zero():
    found = evaluate(table([[2, 0], [0, 4], [0, 0]]), table([[3, 0], [0, 2], [7, 7]]))
    assert found.norm_error == pytest.approx((1 / 2 + 2 / 4) / 2)


def test_the_mean_alone_has_an_error_of_one():
    rows = np.random.default_rng(0).normal(size=(50, 4)) + 3
    assert relative_error(table(rows), table(np.tile(rows.mean(axis=0), (50, 1)))) == pytest.approx(1)


def test_without_variance_the_error_is_relative_to_the_length_of_the_rows():
    assert relative_error(table([[1, 2]] * 3), table([[1, 2]] * 3)) == 0
    assert relative_error(table([[1, 2]] * 3), table([[1, 3]] * 3)) == pytest.approx(1 / 5)
    assert relative_error(table([[3, 4]]), table([[3, 3]])) == pytest.approx(1 / 25)


@pytest.mark.parametrize("row", [[0.1, 0.2, 0.3], [1e8, 1e-8, 1], [1e-30, 1, 3]])
@pytest.mark.parametrize("count", [1, 7, 9000])
def test_rounding_is_not_taken_for_variance(row, count):
    # The mean of equal rows is not exactly the row: what is left of the variance is rounding.
    found = relative_error(table([row] * count), table(np.multiply([row] * count, 1.01)))
    assert found == pytest.approx(1e-4, rel=0.01)


def test_an_all_zero_table():
    assert evaluate(table([[0, 0]] * 3), table([[0, 0]] * 3)) == TableComparison(0.0, 1.0, 0.0)


def test_weights_count_rows_more_than_once():
    random = np.random.default_rng(0)
    rows, copy = random.normal(size=(2, 20_000, 3))
    weights = random.integers(0, 4, size=20_000)
    repeated = relative_error(table(np.repeat(rows, weights, axis=0)), table(np.repeat(copy, weights, axis=0)))
    found = evaluate(table(rows), table(copy), weights.astype(np.float32))
    assert found.weighted_error == pytest.approx(repeated, rel=1e-5)
    assert found.relative_error == relative_error(table(rows), table(copy))
    assert found.as_dict()["weighted_error"] == found.weighted_error


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_vectors_does_not_matter(unit):
    random = np.random.default_rng(0)
    rows, copy = random.normal(size=(2, 50, 4))
    plain, scaled = evaluate(table(rows), table(copy)), evaluate(table(rows * unit), table(copy * unit))
    assert scaled.as_dict() == pytest.approx(plain.as_dict(), rel=1e-4)


def test_chunks_do_not_change_the_answer():
    rows = np.random.default_rng(1).normal(size=(20_000, 2))
    copy = rows + np.random.default_rng(2).normal(size=rows.shape) / 3
    expected = np.square(rows - copy).sum() / np.square(rows - rows.mean(axis=0)).sum()
    assert relative_error(table(rows), table(copy)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", NAMES)
def test_a_coded_table_is_compared_as_it_is(kind):
    coded = coded_table(kind, rows=30)
    assert relative_error(coded.to_table(), coded) == pytest.approx(0, abs=1e-12)


def test_shapes_must_agree():
    with pytest.raises(TableError, match="2 x 2 and 1 x 2"):
        evaluate(table([[1, 2], [3, 4]]), table([[1, 2]]))
