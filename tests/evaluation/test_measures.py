"""What `evaluate` measures beside the numbers that files record, held against definitions and scipy."""

import json

import numpy as np
import pytest
from sample_tables import NAMES, coded_table, words
from scipy import stats

import kdcode
from kdcode import VectorTable
from kdcode.data import glove_50d
from kdcode.errors import OptionError, TableError
from kdcode.evaluation import EvaluationOptions, compare_tables, evaluate
from kdcode.evaluation.correlation import drawn_rows, sampled_pairs, spearman
from kdcode.evaluation.measures import PERCENTILES


def noisy(rows, dim, share=0.5, seed=0):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(rows, dim)).astype(np.float32)
    return matrix, (matrix + share * random.normal(size=matrix.shape)).astype(np.float32)


def cosines_of(matrix):
    units = matrix.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return units @ units.T


def recalls(original, copy, k):
    """(n,) recall@k of each row, as it is defined."""
    nearest = []
    for matrix in (original, copy):
        cosines = cosines_of(matrix)
        np.fill_diagonal(cosines, -2)
        nearest.append(np.argsort(-cosines, axis=1, kind="stable")[:, :k])
    return np.array([len({*one} & {*other}) / k for one, other in zip(*nearest, strict=True)])


def test_the_numbers_that_files_record_are_the_same():
    original, copy = noisy(3000, 8)
    weights = np.random.default_rng(1).random(3000)
    short, long = compare_tables(original, copy, weights), evaluate(original, copy, weights)
    shared = {name: value for name, value in short.as_dict().items() if hasattr(long, name)}
    assert set(short.as_dict()) - set(shared) == {"weighted_error", "low_cosine", "least_cosine"}
    assert {name: getattr(long, name) for name in shared} == pytest.approx(shared, abs=1e-12)
    assert long.weighted.relative_error == pytest.approx(short.weighted_error, abs=1e-12)
    assert long.match == short.match
    assert kdcode.evaluate is evaluate


def test_a_perfect_copy():
    matrix, _ = noisy(300, 6)
    found = evaluate(matrix, matrix, "rank")
    for measures in (found, found.weighted):
        assert measures.relative_error == measures.norm_error == 0
        assert measures.recall_at_1 == measures.recall_at_10 == measures.recall_at_100 == 1
        assert measures.rank_correlation == pytest.approx(1)
        assert measures.cosine_percentiles == {share: pytest.approx(1) for share in PERCENTILES}
    assert found.sampling.queries == 300
    assert found.sampling.pairs == 300 * 299 // 2


@pytest.mark.parametrize("k", [1, 10, 100])
def test_recall_at_every_k_is_what_its_definition_says(k):
    original, copy = noisy(400, 12)
    weights = np.random.default_rng(2).random(400) ** 4
    found = evaluate(original, copy, weights)
    each = recalls(original, copy, k)
    assert getattr(found, f"recall_at_{k}") == pytest.approx(each.mean())
    assert getattr(found.weighted, f"recall_at_{k}") == pytest.approx(each @ weights / weights.sum())


def test_recall_of_a_sample_by_weight_comes_near_that_of_all_rows():
    original, copy = noisy(3000, 12)
    copy[:30] = original[:30]  # the rows that weigh most lose nothing
    weights = np.where(np.arange(3000) < 30, 100.0, 1.0)
    exact = evaluate(original, copy, weights, options=EvaluationOptions(queries=3000))
    found = evaluate(original, copy, weights, options=EvaluationOptions(queries=600, seed=3))
    assert found.sampling.queries == 600
    assert 30 < found.sampling.weighted_queries < 600
    assert exact.weighted.recall_at_10 > exact.recall_at_10 + 0.05
    assert found.recall_at_10 == pytest.approx(exact.recall_at_10, abs=0.02)
    assert found.weighted.recall_at_10 == pytest.approx(exact.weighted.recall_at_10, abs=0.04)


def test_more_queries_than_fit_at_once_find_the_same():
    original, copy = noisy(2500, 4)
    found = evaluate(original, copy, options=EvaluationOptions(queries=2500))
    assert found.sampling.queries == 2500
    assert found.recall_at_10 == pytest.approx(recalls(original, copy, 10).mean())


def test_percentiles_by_hand():
    angles = np.radians(np.arange(100))  # row r is turned by r degrees
    copy = np.column_stack([np.cos(angles), np.sin(angles)])
    original = np.tile([2.0, 0.0], (100, 1))
    found = evaluate(original, copy)
    assert found.cosine_percentiles == {
        share: pytest.approx(np.cos(np.radians(100 - share)), abs=1e-6) for share in PERCENTILES
    }
    twice = np.where(np.arange(100) == 99, 99.0, 1.0)  # half of all weight is on the worst row
    assert evaluate(original, copy, twice).weighted.cosine_percentiles[50] == pytest.approx(np.cos(angles[99]))
    assert found.norm_error == pytest.approx(0.5)


def test_weights_count_rows_more_than_once():
    original, copy = noisy(200, 5)
    copy *= np.linspace(0.5, 2, 200)[:, None].astype(np.float32)
    times = np.random.default_rng(0).integers(0, 4, size=200)
    found = evaluate(original, copy, times).weighted
    repeated = evaluate(np.repeat(original, times, axis=0), np.repeat(copy, times, axis=0))
    for name in ("relative_error", "mean_cosine", "norm_error", "cosine_percentiles"):
        assert getattr(found, name) == pytest.approx(getattr(repeated, name), rel=1e-6)


def test_rank_is_one_over_the_number_of_the_row():
    original, copy = noisy(50, 5)
    by_rank, given = evaluate(original, copy, "rank"), evaluate(original, copy, 1 / np.arange(1, 51))
    assert by_rank.as_dict() == given.as_dict()
    with pytest.raises(TableError, match="or 'rank', got 'frequency'"):
        evaluate(original, copy, "frequency")


def test_rank_goes_by_the_row_in_the_original_where_some_are_missing():
    original, copy = noisy(6, 3)
    found = evaluate(VectorTable([*"abcdef"], original), VectorTable([*"fbd"], copy[[5, 1, 3]]), "rank")
    expected = evaluate(original[[1, 3, 5]], copy[[1, 3, 5]], [1 / 2, 1 / 4, 1 / 6])
    assert found.weighted == expected.weighted


def test_rank_correlation_of_all_pairs_is_scipys():
    original, copy = noisy(60, 4)
    above = np.triu_indices(60, 1)
    expected = stats.spearmanr(cosines_of(original)[above], cosines_of(copy)[above]).statistic
    assert evaluate(original, copy).rank_correlation == pytest.approx(expected)


def test_rank_correlation_of_a_sample_comes_near_that_of_all_pairs():
    original, copy = noisy(1200, 4)
    exact = evaluate(original, copy, options=EvaluationOptions(pairs=1_000_000))
    found = evaluate(original, copy, options=EvaluationOptions(pairs=20_000, seed=1))
    assert (exact.sampling.pairs, found.sampling.pairs) == (1200 * 1199 // 2, 20_000)
    assert found.rank_correlation == pytest.approx(exact.rank_correlation, abs=0.02)
    assert found.rank_correlation != exact.rank_correlation


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides_what_is_sampled(seed):
    original, copy = noisy(4000, 4)
    options = EvaluationOptions(queries=100, pairs=500, seed=seed)
    one, other = evaluate(original, copy, options=options), evaluate(original, copy, options=options)
    assert one == other
    assert one.sampling.seed == seed
    changed = evaluate(original, copy, options=EvaluationOptions(queries=100, pairs=500, seed=seed + 2))
    assert (changed.recall_at_10, changed.rank_correlation) != (one.recall_at_10, one.rank_correlation)
    assert changed.relative_error == one.relative_error


def test_rows_and_pairs_are_drawn_by_weight():
    random = np.random.default_rng(0)
    drawn = drawn_rows(4, 40_000, random, np.array([1.0, 0.0, 3.0, 0.0]))
    assert np.bincount(drawn, minlength=4) / 40_000 == pytest.approx([0.25, 0, 0.75, 0], abs=0.02)
    first, second = sampled_pairs(4, 1000, random, np.array([1.0, 0.0, 3.0, 0.0]))
    assert {*zip(first.tolist(), second.tolist(), strict=True)} == {(0, 2), (2, 0)}
    first, second = sampled_pairs(5, 10, random)
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == 10


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_spearman_is_scipys_with_ties_and_without(digits):
    one, other = np.random.default_rng(digits).normal(size=(2, 300)).round(digits)
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)


def test_spearman_without_an_order():
    assert spearman([1, 1, 1], [1, 2, 3]) == 0
    assert spearman([1, 1, 1], [5, 5, 5]) == 1
    assert spearman([1, 2, 3], [30, 20, 10]) == -1


def test_the_worst_rows_come_first_with_their_names():
    original = VectorTable([*"abcd"], [[1, 0], [0, 2], [3, 0], [0, 0]])
    copy = VectorTable([*"dcba"], [[1, 0], [3, 0], [2, 0], [1, 1]])
    found = evaluate(original, copy, options=EvaluationOptions(worst=3)).worst
    assert [(row.symbol, row.row) for row in found] == [("b", 1), ("d", 3), ("a", 0)]
    assert [row.cosine for row in found] == pytest.approx([0, 0, 0.5**0.5])
    assert [row.relative_error for row in found] == pytest.approx([2, np.inf, 1])
    assert (found[0].length, found[0].copy_length) == (2, 2)
    assert evaluate(original, copy, options=EvaluationOptions(worst=0)).worst == ()


def test_what_each_row_loses_is_there():
    original, copy = noisy(9000, 3)  # more than a chunk
    rows = evaluate(original, copy).rows
    assert rows.distances == pytest.approx(np.linalg.norm(original - copy, axis=1), rel=1e-5)
    assert rows.lengths == pytest.approx(np.linalg.norm(original, axis=1), rel=1e-5)
    assert rows.copy_lengths == pytest.approx(np.linalg.norm(copy, axis=1), rel=1e-5)
    both = rows.lengths * rows.copy_lengths
    assert rows.cosines == pytest.approx(np.einsum("ij,ij->i", original, copy) / both, abs=1e-5)
    assert rows.relative_errors == pytest.approx((rows.distances / rows.lengths) ** 2)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0]], [[0.0, 0.0]] * 3, [[1.0, 1.0]] * 200])
def test_tables_with_nothing_to_compare(matrix):
    found = evaluate(matrix, matrix, "rank")
    assert found.recall_at_10 == found.rank_correlation == found.weighted.recall_at_100 == 1
    assert found.mean_cosine == pytest.approx(1)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize("kind", NAMES)
def test_tables_of_every_kind(kind):
    coded = coded_table(kind, rows=40, symbols=words(40))
    found = evaluate(coded.to_table(), coded, "rank")
    assert found.recall_at_100 == 1
    assert found.relative_error == pytest.approx(0, abs=1e-12)


def test_everything_as_json():
    original, copy = noisy(50, 5)
    found = evaluate(VectorTable(words(50), original), VectorTable(words(50), copy), "rank")
    told = json.loads(json.dumps(found.as_dict()))
    assert told["recall_at_10"] == found.recall_at_10
    assert told["cosine_percentiles"]["5"] == found.cosine_percentiles[5]
    assert told["weighted"]["relative_error"] == found.weighted.relative_error
    assert told["match"]["rows"] == 50
    assert told["sampling"] == {"queries": 50, "pairs": 1225, "seed": 0, "weighted_queries": 50}
    assert told["worst"][0]["symbol"] == found.worst[0].symbol
    assert "rows" not in told


def test_progress_rises_to_the_end():
    original, copy = noisy(20_000, 4)
    told = []
    evaluate(original, copy, on_progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len({total for _, total in told}) == 1
    assert told[-1][0] == told[-1][1]
    assert len(told) > 4


@pytest.mark.parametrize(("name", "value"), [("queries", 0), ("pairs", 1), ("worst", -1), ("seed", -1)])
def test_options_that_cannot_be(name, value):
    with pytest.raises(OptionError, match=f"{name} must be an integer of at least"):
        EvaluationOptions(**{name: value})


def test_the_included_table_rounded_to_a_byte():
    table = glove_50d().head(2000)
    step = np.abs(table.matrix).max() / 127
    found = evaluate(table, VectorTable(table.symbols, np.rint(table.matrix / step) * step), "rank")
    assert 0.9 < found.recall_at_10 < 1
    assert found.mean_cosine > 0.99
    assert found.rank_correlation > 0.99
