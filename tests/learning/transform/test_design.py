"""Transform codes for a size: what is predicted and promised is what comes out."""

import json

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.evaluation.rate_distortion import gaussian_limit, principal_variances
from kdcode.learning.planning.curve import plan_curve
from kdcode.learning.transform.design import TRADES, Design, Designer, design_codec, with_best_trade
from kdcode.learning.transform.fitting import Outcome
from kdcode.learning.transform.row_lengths import Budget
from kdcode.learning.transform.space import FittedSpace
from kdcode.options import CompressOptions


@pytest.fixture(scope="module")
def table():
    return glove_50d().head(2000)


def fast(row_bytes, **more):
    """Options of transform codes of so many bytes a row."""
    return CompressOptions.of(composition="transform", row_bytes=row_bytes, effort="fast", **more)


def heavy_tailed(rows=2000, dim=32, seed=0):
    """Rows whose lengths differ by orders of magnitude, as in tables of n-grams."""
    random = np.random.default_rng(seed)
    return (random.normal(size=(rows, dim)) * np.exp(1.5 * random.normal(size=(rows, 1)))).astype(np.float32)


@pytest.mark.parametrize("size", [pytest.param("8x", marks=pytest.mark.slow), "10x", "20x"])
def test_a_plan_chooses_transform_codes_and_knows_their_error_and_size(table, size):
    planned = kdcode.plan(table, size, effort="fast").recommended
    assert planned.options.composition == "transform"
    coded = kdcode.compress(table, size, effort="fast")
    assert coded.spec.composition == "transform"
    assert coded.provenance["relative_error"] == pytest.approx(planned.relative_error, rel=0.06)
    most = 4 * len(table) * 50 / float(size[:-1])
    assert 0.995 * most <= coded.sizes.embedding <= most
    assert planned.sizes.embedding == int(most)


def test_a_size_of_the_file_is_kept(table, tmp_path):
    coded = kdcode.compress(table, "50KB", effort="fast")
    assert coded.spec.composition == "transform"
    assert 48_000 <= kdcode.save(coded, tmp_path / "a.kdc") <= 50_000


def test_the_error_is_near_the_limit_of_a_gaussian():
    random = np.random.default_rng(0)
    matrix = (random.normal(size=(3000, 40)) * np.geomspace(3, 0.3, 40)).astype(np.float32)
    table = kdcode.VectorTable(None, matrix)
    coded = kdcode.compress(table, "10x", effort="normal")
    limit = gaussian_limit(principal_variances(table), 32 * 40 / 10)
    assert limit < coded.provenance["relative_error"] < 1.45 * limit


def test_rows_of_different_lengths_take_different_bytes():
    matrix = heavy_tailed()
    coded = kdcode.compress(matrix, "10x", effort="fast", seed=1)
    lengths = np.array(coded.spec.lengths)[coded.codes[:, -2]]
    norms = np.linalg.norm(matrix - matrix.mean(axis=0), axis=1)
    assert np.corrcoef(np.log(norms), lengths)[0, 1] > 0.85  # near a centroid a long row takes less
    fixed = gaussian_limit(matrix.var(axis=0), 32 * 32 / 10)
    assert coded.provenance["relative_error"] < 0.05 * fixed  # equal bits for all rows could not come below it


@pytest.mark.parametrize("ratio", [30, 50, 80])
def test_rows_are_as_long_as_they_may_be_where_most_of_them_are_zero(ratio):
    """A step that is halved makes few of their coordinates longer."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(20_000, 100)) * np.geomspace(1, 0.3, 100) * np.exp(1.2 * random.normal(size=(20_000, 1)))
    found = design_codec(kdcode.VectorTable(None, rows.astype(np.float32)), 60_000, fast(400 / ratio), quick=True)
    assert found.is_full
    assert found.relative_error < 0.15


def test_the_bytes_of_rows_are_known_from_a_sample_where_many_rows_are_zero():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(4_000, 16)).astype(np.float32)
    matrix[random.random(len(matrix)) < 0.6] = 0
    coded = kdcode.compress(matrix, "10x", effort="fast")
    assert coded.spec.composition == "transform"
    assert 0.995 < coded.sizes.embedding / (0.1 * matrix.nbytes) <= 1


class _Walked:
    """In place of a `Fit`: errors that rise to both sides of one λ."""

    def __init__(self, low):
        self.low, self.tried = low, []

    def with_fewer_contexts(self, *_):
        return None

    def natural(self, bits, trade, before=None):
        self.tried.append((trade, before))
        error = 1.0 + abs(TRADES.index(trade) - self.low)
        return Outcome(f"quantizer of {trade}", bits, error, 0.0, None, None, None)


@pytest.mark.parametrize("low", range(6))
def test_the_walk_over_trades_ends_at_the_best_one(low):
    fit, budget = _Walked(low), Budget(100_000, 1000, 50, 1, 0.0)
    bits = budget.bits(100, 16)
    found = with_best_trade(FittedSpace(None, fit, budget, 100, fit.natural(bits, TRADES[2])), 2)
    assert found.natural.quantizer == f"quantizer of {TRADES[low]}"
    assert len(fit.tried) == len({trade for trade, _ in fit.tried})
    assert [before for _, before in fit.tried[:2]] == [None, f"quantizer of {TRADES[2]}"]


def test_a_design_is_kept_as_json_values(table):
    found = design_codec(table, len(table), fast(20.0), quick=True)
    again = Design.of_values(json.loads(json.dumps(found.as_values())))
    assert again.codec.spec == found.codec.spec
    vectors = np.asarray(table.matrix[:50], dtype=np.float32)
    np.testing.assert_array_equal(again.codec.encode(vectors), found.codec.encode(vectors))
    assert (again.row_bytes, again.relative_error) == (found.row_bytes, found.relative_error)


def test_what_learning_begins_with_is_what_was_planned(table, monkeypatch):
    made = []
    original = Designer.design

    def counted(self, *args, **named):
        made.append(args)
        return original(self, *args, **named)

    monkeypatch.setattr(Designer, "design", counted)
    kdcode.compress(table, "20x", effort="fast")
    assert len(made) == 1


def test_a_resumed_run_begins_with_what_was_planned(table, tmp_path, monkeypatch):
    whole = kdcode.compress(table, "20x", effort="fast")

    def stop(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table, "20x", effort="fast", checkpoint=tmp_path / "c", progress=stop)
    monkeypatch.setattr(Designer, "design", lambda *_, **__: pytest.fail("designed again"))
    resumed = kdcode.compress(table, "20x", effort="fast", checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(resumed.codes, whole.codes)


@pytest.mark.parametrize("ratio", [pytest.param(10, marks=pytest.mark.slow), 40])
def test_an_estimate_is_near_the_truth(ratio):
    table = glove_50d().head(6000)
    whole, quick = (
        design_codec(table, len(table), fast(4 * 50 / ratio), quick=quick).relative_error for quick in (False, True)
    )
    assert quick == pytest.approx(whole, rel=0.03)
    assert quick != whole


def test_fewer_bits_have_a_smaller_trade():
    random = np.random.default_rng(0)
    matrix = (random.normal(size=(1500, 48)) * np.geomspace(3, 0.1, 48)).astype(np.float32)
    table = kdcode.VectorTable(None, matrix)
    trades = [design_codec(table, len(matrix), fast(bits * 48 / 8)).codec.stored["search"][0] for bits in (3.5, 0.6)]
    assert trades[1] <= trades[0]


def test_unseen_rows_lose_no_more(table):
    matrix = np.asarray(table.matrix, dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(matrix))
    learned = kdcode.learn_codebook(matrix[order[:1500]], "10x", effort="fast")
    others = matrix[order[1500:]]
    lost = np.square(learned.codec.decode(learned.encode(others)) - others).sum()
    error = lost / np.square(others - matrix[order[:1500]].mean(axis=0)).sum()
    assert error == pytest.approx(learned.provenance["relative_error"], rel=0.08)
    assert learned.provenance["unseen_error"] == pytest.approx(error, rel=0.15)


def weighted_error(coded, matrix, weights):
    lost = np.square(coded.decode(np.arange(len(matrix))) - matrix, dtype=np.float64).sum(axis=1)
    return float((lost * weights).sum())


@pytest.mark.parametrize("size", [pytest.param("10x", marks=pytest.mark.slow), "20x"])
def test_rows_with_more_weight_lose_less(table, size):
    matrix = np.asarray(table.head(1200).matrix, dtype=np.float32)
    weights = (1 / (np.arange(len(matrix)) + 10)).astype(np.float32)
    coded = kdcode.compress(kdcode.VectorTable(None, matrix, weights), size, effort="fast")
    plain = kdcode.compress(matrix, size, effort="fast")
    assert coded.spec.composition == plain.spec.composition == "transform"
    assert weighted_error(coded, matrix, weights) < 0.7 * weighted_error(plain, matrix, weights)
    assert len(set(coded.codec.stored["steps"].tolist())) > 2
    planned = kdcode.plan(kdcode.VectorTable(None, matrix, weights), size, effort="fast").recommended
    assert coded.provenance["weighted_error"] == pytest.approx(planned.relative_error, rel=0.06)
    assert 0.995 < coded.sizes.embedding * float(size[:-1]) / matrix.nbytes <= 1


def test_new_vectors_under_a_codec_with_weights_are_coded_as_if_they_counted_as_one(table):
    matrix = np.asarray(table.head(1000).matrix, dtype=np.float32)
    weights = np.where(np.arange(len(matrix)) % 2, 16.0, 1.0).astype(np.float32)
    coded = kdcode.compress(kdcode.VectorTable(None, matrix, weights), "12x", effort="fast")
    codes = coded.encode(matrix[:200])
    steps = coded.codec.stored["steps"][codes[:, -2]]
    assert len(set(steps.tolist())) == 1


def test_the_same_table_gives_the_same_file(table, tmp_path):
    files = []
    for threads in (1, 2):
        coded = kdcode.compress(table.head(1000), "10x", effort="fast", threads=threads)
        kdcode.save(coded, tmp_path / "a.kdc")
        files.append((tmp_path / "a.kdc").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("matrix", ["zeros", "constant", "normal"])
def test_tables_that_hardly_have_any_rows(rows, matrix):
    vectors = {"zeros": np.zeros((rows, 40)), "constant": np.ones((rows, 40)) * 3}.get(
        matrix, np.random.default_rng(0).normal(size=(rows, 40))
    )
    coded = kdcode.compress(vectors.astype(np.float32), composition="transform", row_bytes=80_000.0 / rows)
    assert coded.decode(np.arange(rows)) == pytest.approx(vectors, abs=0.1)


def test_bytes_that_leave_nothing_for_rows_are_refused(table):
    with pytest.raises(OptionError, match="leave none for 2,000 rows"):
        design_codec(table, 2000, fast(0.1))
    with pytest.raises(OptionError, match="give it with composition='transform', or a size"):
        kdcode.compress(table, composition="transform")
    with pytest.raises(OptionError, match="codebook_size is for codes with codewords"):
        kdcode.compress(table, composition="transform", row_bytes=20.0, codebook_size=16)


@pytest.mark.parametrize("rows", [3000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_rows_of_a_flat_spectrum_come_near_the_limit_however_few_they_are(rows):
    """Tables of levels that few rows have must not be left out while other rows may still come to them."""
    matrix = np.random.default_rng(0).normal(size=(rows, 100)).astype(np.float32)
    coded = kdcode.compress(matrix, "8x", effort="fast")
    limit = gaussian_limit(principal_variances(kdcode.VectorTable(None, matrix)), 400)
    assert coded.provenance["relative_error"] < 1.35 * limit


def cosines(matrix, coded):
    copies = coded.decode(np.arange(len(matrix))).astype(np.float64)
    lengths = np.linalg.norm(matrix, axis=1), np.linalg.norm(copies, axis=1)
    return (matrix * copies).sum(axis=1) / (lengths[0] * lengths[1]), lengths[1] / lengths[0]


def test_short_rows_keep_their_direction_and_length_where_that_is_asked_for():
    random = np.random.default_rng(0)
    rows = (random.normal(size=(3000, 32)) * np.geomspace(1, 0.2, 32) + 0.2) * np.exp(
        0.8 * random.normal(size=(3000, 1))
    )
    matrix = rows.astype(np.float32)
    plain, directed = (kdcode.compress(matrix, "12x", effort="fast", loss=loss) for loss in ("squared", "cosine"))
    assert plain.spec.composition == directed.spec.composition == "transform"
    (before, long), (after, kept) = cosines(matrix, plain), cosines(matrix, directed)
    assert np.quantile(after, 0.01) > 0.9
    assert np.quantile(before, 0.01) < 0.8
    assert after.min() > before.min() + 0.3
    assert kept.max() < 1.25 < long.max()
    told = directed.provenance
    assert told["low_cosine"] == pytest.approx(np.quantile(after, 0.01), abs=0.005)
    assert told["least_cosine"] == pytest.approx(after.min(), abs=1e-5)
    planned = kdcode.plan(matrix, "12x", effort="fast", loss="cosine").recommended
    assert told["relative_error"] == pytest.approx(planned.relative_error, rel=0.06)


def test_a_curve_tells_what_sizes_come_to(table):
    points = plan_curve(table, CompressOptions.of(effort="fast"))
    assert [point.times for point in points] == [5, 8, 10, 20, 40]
    assert [point.nbytes for point in points] == [2000 * 200 // point.times for point in points]
    for name, rises in (("relative_error", True), ("recall_at_10", False), ("low_cosine", False)):
        values = [getattr(point, name) for point in points]
        assert values == sorted(values, reverse=not rises)
    coded = kdcode.compress(table, "10x", effort="fast")
    assert coded.provenance["relative_error"] == pytest.approx(points[2].relative_error, rel=0.06)
    assert coded.provenance["low_cosine"] == pytest.approx(points[2].low_cosine, abs=0.01)
    assert coded.provenance["recall_at_10"] == pytest.approx(points[2].recall_at_10, abs=0.05)
