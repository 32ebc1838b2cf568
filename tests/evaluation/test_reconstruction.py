import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import NAMES, coded_table, words

from kdcode import VectorTable, save
from kdcode.errors import TableError
from kdcode.evaluation import RowMatch, compare_tables, relative_error
from kdcode.evaluation.neighbors import NearestRows, sampled_rows, unit_rows


def table(rows, symbols=None):
    return VectorTable(symbols, np.array(rows, dtype=np.float32))


def noisy(rows, dim, *, share=0.5, seed=0):
    """A matrix, and a copy of it with noise."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(rows, dim)).astype(np.float32)
    return matrix, (matrix + share * random.normal(size=matrix.shape)).astype(np.float32)


def slow_recall(original, copy, queries=None):
    """Recall@10 as it is defined, a row at a time; of rows that are equally near the first ones count."""
    shares = []
    units = [units_of(original), units_of(copy)]
    for row in range(len(original)) if queries is None else queries:
        before, after = (set(slow_nearest(rows, row)) for rows in units)
        shares.append(len(before & after) / len(before) if before else 1.0)
    return float(np.mean(shares))


def units_of(rows):
    wide = np.asarray(rows, dtype=np.float32).astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)


def slow_nearest(units, row):
    cosines = (units @ units[row]).round(10)
    cosines[row] = -2
    return np.argsort(-cosines, kind="stable")[: min(10, len(units) - 1)].tolist()


def test_a_perfect_copy_loses_nothing():
    original = table([[3, 4], [0, 0], [1, -1]])
    found = compare_tables(original, original)
    lossless = {"relative_error": 0.0, "mean_cosine": pytest.approx(1.0), "norm_error": 0.0, "recall_at_10": 1.0}
    lossless |= {"low_cosine": pytest.approx(1.0), "least_cosine": pytest.approx(1.0)}
    assert found.as_dict() == lossless
    assert found.match == RowMatch(rows=3, by_symbol=False)


def test_by_hand():
    # Mean (1, 1); variance 2 + 2 = 4. Errors: 1 and 4, so 5/4. Cosines: 0 where one row is zero, and 1/√2.
    found = compare_tables(table([[0, 0], [2, 2]]), table([[1, 0], [2, 0]]))
    assert found.relative_error == pytest.approx(5 / 4)
    assert found.mean_cosine == pytest.approx((0 + 0.5**0.5) / 2)
    assert found.norm_error == pytest.approx((8**0.5 - 2) / 8**0.5)  # the zero row is left out
    assert found.as_dict() == {
        "relative_error": found.relative_error,
        "mean_cosine": found.mean_cosine,
        "norm_error": found.norm_error,
        "recall_at_10": 1.0,
        "low_cosine": 0.0,
        "least_cosine": 0.0,
    }


def test_norm_error_is_the_mean_over_rows_that_are_not_zero():
    found = compare_tables(table([[2, 0], [0, 4], [0, 0]]), table([[3, 0], [0, 2], [7, 7]]))
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
    found = compare_tables(table([[0, 0]] * 3), table([[0, 0]] * 3))
    errors, ones = ("relative_error", "norm_error"), ("mean_cosine", "recall_at_10", "low_cosine", "least_cosine")
    assert found.as_dict() == {**dict.fromkeys(errors, 0.0), **dict.fromkeys(ones, 1.0)}


def test_weights_count_rows_more_than_once():
    random = np.random.default_rng(0)
    rows, copy = random.normal(size=(2, 20_000, 3))
    weights = random.integers(0, 4, size=20_000)
    repeated = relative_error(table(np.repeat(rows, weights, axis=0)), table(np.repeat(copy, weights, axis=0)))
    found = compare_tables(table(rows), table(copy), weights.astype(np.float32))
    assert found.weighted_error == pytest.approx(repeated, rel=1e-5)
    assert found.relative_error == relative_error(table(rows), table(copy))
    assert found.as_dict()["weighted_error"] == found.weighted_error


@pytest.mark.parametrize("weights", [[1.0], [[1.0, 1.0]], [1.0, -1.0], [np.nan, 1.0], [0.0, 0.0]])
def test_weights_that_cannot_be(weights):
    with pytest.raises(TableError, match="weights: expected"):
        compare_tables(table([[1, 2], [3, 4]]), table([[1, 2], [3, 4]]), weights)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_vectors_does_not_matter(unit):
    rows, copy = noisy(50, 4)
    plain, scaled = compare_tables(table(rows), table(copy)), compare_tables(table(rows * unit), table(copy * unit))
    assert scaled.as_dict() == pytest.approx(plain.as_dict(), rel=1e-4)
    assert 0 < plain.recall_at_10 < 1


def test_chunks_do_not_change_the_answer():
    rows = np.random.default_rng(1).normal(size=(20_000, 2))
    copy = rows + np.random.default_rng(2).normal(size=rows.shape) / 3
    expected = np.square(rows - copy).sum() / np.square(rows - rows.mean(axis=0)).sum()
    assert relative_error(table(rows), table(copy)) == pytest.approx(expected, rel=1e-4)
    assert compare_tables(table(rows), table(copy)).relative_error == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", NAMES)
def test_a_coded_table_is_compared_as_it_is(kind):
    coded = coded_table(kind, rows=30)
    assert relative_error(coded.to_table(), coded) == pytest.approx(0, abs=1e-12)
    assert compare_tables(coded.to_table(), coded).recall_at_10 == 1


# Recall


def test_recall_by_hand():
    # Twelve directions, the first of which moves to the other end: 0, 1, …, 11 become 1, …, 11, 0. The 10 nearest of 11
    # other rows are all but the farthest: before, that is 11 for rows 0 to 5 and 0 for rows 6 to 11; after, it is 1 for
    # row 0 and rows 7 to 11, and 0 for rows 1 to 6.
    def circle(places):
        angles = np.array(places) / 20
        return table(np.column_stack([np.cos(angles), np.sin(angles)]))

    before, after = circle(range(12)), circle([12, *range(1, 12)])
    dropped = [(11, 1), *[(11, 0)] * 5, (0, 0), *[(0, 1)] * 5]
    expected = np.mean([1.0 if one == other else 0.9 for one, other in dropped])
    assert compare_tables(before, after).recall_at_10 == pytest.approx(expected)


numbers = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, 0.1, 3.5, -7.25, 1e-38, 3e38])


@settings(max_examples=150)
@given(st.data())
def test_recall_is_what_its_definition_says(data):
    """With few distinct numbers, rows that are equal, zero, or equally near are the rule."""
    rows, dim = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 4))
    both = [np.array(data.draw(st.lists(numbers, min_size=rows * dim, max_size=rows * dim))) for _ in range(2)]
    original, copy = (one.reshape(rows, dim) for one in both)
    assert compare_tables(original, copy).recall_at_10 == pytest.approx(slow_recall(original, copy))


def test_recall_of_a_sample_over_several_chunks():
    original, copy = noisy(10_000, 6)
    copy[5000:5010] = copy[9000:9010]  # ties between rows of different chunks
    queries = sampled_rows(10_000, 6)
    assert len(queries) == 1000
    assert compare_tables(original, copy).recall_at_10 == pytest.approx(slow_recall(original, copy, queries), abs=1e-12)


@pytest.mark.parametrize("kind", ["rising", "few", "constant", "zero"])
def test_recall_of_tables_in_which_many_rows_are_near(kind):
    angles = np.linspace(0, 3, 9000)
    few = np.random.default_rng(0).normal(size=(6, 3))
    copy = {
        "rising": np.column_stack([np.cos(angles), np.sin(angles), np.cos(2 * angles)]),
        "few": few[np.random.default_rng(1).integers(0, 6, size=9000)],
        "constant": np.ones((9000, 3)),
        "zero": np.zeros((9000, 3)),
    }[kind].astype(np.float32)
    original = copy + np.float32(1e-3) * np.random.default_rng(2).normal(size=copy.shape).astype(np.float32)
    found = compare_tables(original, copy).recall_at_10
    assert found == pytest.approx(slow_recall(original, copy, sampled_rows(9000, 3)), abs=1e-12)
    assert compare_tables(copy, copy).recall_at_10 == 1


def test_recall_of_one_row_and_of_noise():
    assert compare_tables([[1.0, 2.0]], [[2.0, 1.0]]).recall_at_10 == 1  # it has no neighbours to lose
    one, other = np.random.default_rng(0).normal(size=(2, 3000, 20))
    assert compare_tables(one, other).recall_at_10 < 0.02


@pytest.mark.parametrize(
    ("shape", "queries"),
    [((1, 5), 1), ((1000, 768), 1000), ((100_000, 100), 1000), ((1_000_000, 100), 150), ((10_000_000, 1000), 100)],
)
def test_how_many_rows_are_asked(shape, queries):
    sample = sampled_rows(*shape)
    assert len(np.unique(sample)) == len(sample) == queries
    assert (np.diff(sample) > 0).all()
    assert 0 <= sample[0] <= sample[-1] < shape[0]
    np.testing.assert_array_equal(sample, sampled_rows(*shape))


@pytest.mark.parametrize("chunk", [1, 7, 100, 1000])
def test_nearest_rows_do_not_depend_on_chunks(chunk):
    rows, _ = noisy(1000, 5)
    queries = np.arange(0, 1000, 9)
    nearest = NearestRows(rows[queries], queries, 10)
    for start in range(0, 1000, chunk):
        nearest.add(start, unit_rows(rows[start : start + chunk]), np.empty(len(queries) * chunk))
    assert nearest.rows.tolist() == [slow_nearest(units_of(rows), int(query)) for query in queries]


# Rows matched by symbol


@settings(max_examples=50)
@given(order=st.permutations(range(25)), coded=st.booleans())
def test_rows_are_matched_by_symbol_in_any_order(order, coded):
    copy = coded_table("grouped", rows=25, symbols=words(25), seed=3)
    vectors = copy.decode(np.arange(25))
    original = table(vectors + np.random.default_rng(0).normal(size=vectors.shape) / 2, words(25))
    moved = VectorTable([original.symbols[row] for row in order], original.matrix[order])
    weights = np.arange(1.0, 26)
    found = compare_tables(moved, copy if coded else copy.to_table(), weights[order])
    assert found.as_dict() == pytest.approx(compare_tables(original, copy, weights).as_dict())
    assert found.match == RowMatch(rows=25, same_order=order == list(range(25)))


def test_only_symbols_that_both_have_are_compared():
    original = table([[1, 0], [0, 1], [5, 5], [2, 1]], ["a", "b", "only here", "d"])
    copy = table([[9, 9], [2, 1], [1, 0], [0, 3]], ["only there", "d", "a", "b"])
    found = compare_tables(original, copy, [1, 2, 100, 4])
    assert found.match == RowMatch(
        rows=3, same_order=False, only_in_original=1, only_in_copy=1, missing=("only here",), added=("only there",)
    )
    assert not found.match.is_complete
    expected = compare_tables(table([[1, 0], [0, 1], [2, 1]]), table([[1, 0], [0, 3], [2, 1]]), [1, 2, 4])
    assert found.as_dict() == pytest.approx(expected.as_dict())
    assert relative_error(original, copy) == pytest.approx(expected.relative_error)


def test_of_many_missing_symbols_a_few_are_named():
    coded = coded_table(rows=300, symbols=words(300))
    match = compare_tables(coded.to_table(), coded.to_table().head(20)).match
    assert (match.rows, match.only_in_original, match.only_in_copy) == (20, 280, 0)
    assert match.missing == tuple(words(300)[20:25])
    assert match.same_order


def test_tables_without_a_common_symbol_are_refused():
    with pytest.raises(TableError, match="no symbol in common: the original has 'a', 'b', the copy 'c', 'd'"):
        compare_tables(table([[1, 2], [3, 4]], ["a", "b"]), table([[1, 2], [3, 4]], ["c", "d"]))


def test_without_symbols_rows_are_matched_by_number():
    rows, copy = noisy(30, 4)
    expected = compare_tables(rows, copy)
    assert expected.match == RowMatch(rows=30, by_symbol=False)
    for one, other in ((None, words(30)), (words(30), None)):
        assert compare_tables(table(rows, one), table(copy, other)) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "which"), [(None, None, "tables have"), (None, "ab", "original has"), ("ab", None, "copy has")]
)
def test_without_symbols_lengths_must_agree(ours, theirs, which):
    original, copy = table([[1, 2], [3, 4]], ours and [*ours]), table([[1, 2], [3, 4]], theirs and [*theirs])
    with pytest.raises(TableError, match=rf"the {which} no symbols, so rows are compared by number .* got 2 and 1"):
        compare_tables(original, copy.head(1))


def test_symbols_that_are_row_numbers_of_the_other_table_are_matched():
    rows, copy = noisy(30, 4)
    picked = [7, 3, 20]
    found = compare_tables(rows, table(copy[picked], list(map(str, picked))))
    assert found.as_dict() == pytest.approx(compare_tables(rows[sorted(picked)], copy[sorted(picked)]).as_dict())
    assert found.match.rows == 3
    assert found.match.missing == ("0", "1", "2", "4", "5")


def test_dimensions_must_agree():
    with pytest.raises(TableError, match=r"the same dimension, got 2 x 2 and 1 x 3"):
        compare_tables(table([[1, 2], [3, 4]]), table([[1, 2, 3]]))


def test_whatever_holds_vectors_can_be_compared(tmp_path):
    coded = coded_table(rows=20, symbols=words(20))
    save(coded, tmp_path / "t.kdc")
    expected = compare_tables(coded.to_table(), coded)
    by_symbol = {symbol: coded[symbol] for symbol in reversed(words(20))}
    assert compare_tables(by_symbol, tmp_path / "t.kdc").as_dict() == pytest.approx(expected.as_dict(), abs=1e-12)
    assert compare_tables(coded.to_table().matrix, str(tmp_path / "t.kdc")).as_dict() == expected.as_dict()
