"""Plans: every candidate keeps to its limit, predictions are near whole runs, and plans are kept in checkpoints."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError, OptionError
from kdcode.learning import Checkpoint, Goal, planned
from kdcode.learning.planning import candidates
from kdcode.learning.planning.candidates import PLANNED
from kdcode.learning.planning.predictor import Prediction, Predictor
from kdcode.options import CompressOptions, promised_sizes

TABLE = glove_50d().head(300)


@pytest.fixture(autouse=True)
def codewords_alone(monkeypatch):
    """Transform codes would be chosen for most sizes here: they have tests of their own (tests/learning/transform)."""
    monkeypatch.setattr(candidates.CandidateSearch, "_transform", lambda *_, **__: [])


FAST = CompressOptions.of(effort="fast")


def allowed(limit, options, table=TABLE):
    spec = options.spec(table.embedding_dim)
    return limit.allows(promised_sizes(table, options), spec.ratio(len(table)), spec.bits)


@pytest.mark.parametrize("size", ["8x", "20x", "8KB", 6_000])
def test_every_candidate_keeps_to_the_size_and_tells_its_bytes_exactly(size):
    plan = kdcode.plan(TABLE, size, options=FAST)
    assert len(plan.candidates) >= 3
    for candidate in plan.candidates:
        options = candidate.options
        assert candidate.sizes == promised_sizes(TABLE, options)
        assert candidate.ratio == candidate.sizes.ratio(300, 50)
        assert allowed(plan.limit, options)
        assert options.learning.effort == "fast"
        if options.code_length < 50 or options.composition != "product":
            assert not allowed(plan.limit, options.changed(code_length=options.code_length + 1))
    errors = [candidate.relative_error for candidate in plan.candidates]
    assert errors == sorted(errors)
    assert plan.recommended is plan.candidates[0]


@pytest.mark.parametrize(("size", "effort"), [("40x", "normal"), ("12x", "fast")])
def test_predicted_errors_are_near_those_of_whole_runs(size, effort):
    table = glove_50d().head(1200)
    best = kdcode.plan(table, size, options=CompressOptions.of(effort=effort)).recommended
    coded = kdcode.compress(table, options=best.options)
    assert best.relative_error == pytest.approx(coded.provenance["relative_error"], rel=0.1)


def test_many_bits_are_for_codes_without_sums_and_few_for_sums():
    table = glove_50d().head(4000)
    many, few = (kdcode.plan(table, size, effort="fast").candidates for size in ("8x", "40x"))
    assert {one.options.composition for one in many} == {"product"}  # sums would take long, and do no better
    assert {one.options.composition for one in few} == {"product", "linear"}
    assert few[0].options.composition == "linear"


def test_more_effort_looks_at_more_settings(monkeypatch):
    monkeypatch.setattr(Predictor, "predict", lambda _, options: Prediction(1 / options.codebook_size, 1.0, 1.0))
    monkeypatch.setattr(candidates, "_PROBES", {"fast": (20, 20), "best": (20, 20)})
    fast, best = (kdcode.plan(glove_50d().head(4000), "8x", effort=effort).candidates for effort in ("fast", "best"))
    assert {one.options.composition for one in fast} == {"product"}
    assert {one.options.composition for one in best} == {"product", "linear"}
    assert max(one.options.codebook_size for one in fast) == 512  # more codewords take k-means longer
    assert max(one.options.codebook_size for one in best) == 1024


def test_a_search_goes_on_where_it_is_better(monkeypatch):
    """From the first size up, then down, as long as errors fall; the best of a smooth curve is found."""

    def predict(_, options):
        error = 0.2 + 0.01 * abs(math.log2(options.codebook_size) - best)
        return Prediction(error if options.composition == "product" else 0.9, 1.0, 1.0)

    monkeypatch.setattr(Predictor, "predict", predict)
    for best in (3, 5):
        found = kdcode.plan(glove_50d().head(3000), "20x", effort="best")
        assert found.recommended.options.codebook_size == 2**best


def test_compress_takes_the_recommended_settings():
    coded = kdcode.compress(TABLE, size="20x", effort="fast")
    best = kdcode.plan(TABLE, "20x", options=FAST).recommended
    assert coded.sizes == best.sizes
    assert coded.provenance["options"]["codebook_size"] == best.options.codebook_size
    assert coded.sizes.ratio(300, 50) >= 20
    with pytest.raises(OptionError, match="code_length is chosen for size='20x'; leave one of the two out"):
        kdcode.compress(TABLE, size="20x", code_length=8)


@pytest.mark.parametrize("scale_bits", [0, 5])
def test_bits_limit_the_whole_code(scale_bits):
    plan = kdcode.plan(TABLE, bits=24, options=FAST.changed(scale_bits=scale_bits))
    lengths = {one.options.codebook_size: one.options.code_length for one in plan.candidates}
    assert lengths[16] == (24 - scale_bits) // 4
    assert max(one.options.spec(50).bits for one in plan.candidates) <= 24


def test_the_smallest_table_within_an_error():
    loose, tight = (kdcode.plan(TABLE, max_error=most, options=FAST) for most in (0.5, 0.15))
    assert loose.recommended.relative_error <= 0.5
    assert tight.recommended.relative_error <= 0.15
    assert tight.recommended.sizes.embedding > 1.5 * loose.recommended.sizes.embedding


def test_an_error_that_no_setting_reaches_is_refused():
    with pytest.raises(OptionError, match="comes that near"):
        kdcode.plan(TABLE.head(50), max_error=1e-6, options=FAST)


def test_product_codes_are_looked_at_for_an_error_too():
    random = np.random.default_rng(0)
    words = random.normal(size=(16, 16, 2))  # each pair of coordinates is one of 16 points, whatever the others are
    matrix = np.concatenate([block[random.integers(0, 16, size=600)] for block in words], axis=1)
    table = kdcode.VectorTable(None, matrix + 0.05 * random.normal(size=matrix.shape))
    best = kdcode.plan(table, max_error=0.05, options=FAST).recommended
    assert best.options.composition == "product"
    reached = kdcode.compress(table, options=best.options)
    assert reached.provenance["relative_error"] < 0.055
    as_one_sum = kdcode.compress(table, codebook_size=16, code_length=8, codebook_dtype="int8", effort="fast")
    assert as_one_sum.sizes.embedding > reached.sizes.embedding
    assert as_one_sum.provenance["relative_error"] > 0.15


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "one of size, bits and max_error"),
        ({"size": "20x", "bits": 8}, "one of size, bits and max_error"),
        ({"size": "100000x"}, r"size 100000x: too small for this table, .*; the smallest possible is 148\.5x"),
        ({"size": "2KB"}, r"size 2,000 B: too small for this table, .*; the smallest possible is 5,\d\d\d B"),
        ({"size": "1MB"}, r"size 1,000,000 B: the table takes no more as float32 \(60,000 B\); ask for less"),
        ({"bits": 1600}, "bits 1600: a row has no more as float32"),
        ({"size": "20"}, "20x .* or 20B"),
        ({"bits": 0}, "bits must be an integer of at least 1, got 0"),
        ({"max_error": 1.5}, "max_error must be a number from 0 to 1, got 1.5"),
    ],
)
def test_what_cannot_be_planned_is_refused(limits, message):
    with pytest.raises(OptionError, match=message):
        kdcode.plan(TABLE, **limits)


def test_the_smallest_size_that_is_told_can_be_had(tmp_path):
    table = glove_50d().head(300)
    with pytest.raises(OptionError) as refused:
        kdcode.plan(table, "2KB")
    smallest = int(str(refused.value).split()[-2].replace(",", ""))
    coded = kdcode.compress(table, smallest, effort="fast")
    assert kdcode.save(coded, tmp_path / "a.kdc") <= smallest <= 5300
    with pytest.raises(OptionError, match="too small"):
        kdcode.plan(table, smallest - 1)


def test_a_plan_takes_up_the_probes_of_a_checkpoint(tmp_path, monkeypatch):
    table, goal, path = glove_50d().head(500), Goal(size="20x"), tmp_path / "c"
    whole = kdcode.plan(table, "20x", options=FAST)
    asked, original = [], Predictor._predict

    def stopping(self, options):
        asked.append(options)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return original(self, options)

    monkeypatch.setattr(Predictor, "_predict", stopping)
    with pytest.raises(KeyboardInterrupt):
        planned(table, FAST, goal, checkpoint=Checkpoint(path))
    found = planned(table, FAST, goal, checkpoint=Checkpoint(path)).options
    assert asked[2] == asked[3]  # the one that was stopped is the first of the rest
    assert len(set(asked)) == len(asked) - 1
    assert found == whole.recommended.options


def test_lstms_are_not_planned():
    with pytest.raises(OptionError, match="leaves 'lstm' out"):
        kdcode.plan(TABLE, "20x", options=CompressOptions(composition="lstm"))


def test_other_learners_are_not_planned():
    with pytest.raises(OptionError, match=r"learner must be additive for a plan, .* got 'encoder'"):
        kdcode.compress(TABLE, size="20x", learner="encoder")


def test_each_probe_is_told():
    seen = []
    kdcode.plan(TABLE.head(100), "10x", options=FAST, progress=lambda *told: seen.append(told))
    assert [done for done, _, _ in seen] == list(range(len(seen)))
    assert seen[0][2].startswith("K=4, D=")
    assert {most for _, most, _ in seen} == {seen[0][1]}
    assert seen[0][1] >= len(seen)


def test_the_number_of_probes_for_an_error_is_known_from_the_start():
    seen = []
    kdcode.plan(TABLE, max_error=0.3, options=FAST, progress=lambda *told: seen.append(told))
    assert len({most for _, most, _ in seen}) == 1
    assert seen[-1][0] < seen[0][1]


def test_a_candidate_is_told_in_json_values():
    told = kdcode.plan(TABLE.head(100), "10x", options=FAST).recommended.as_dict()
    assert set(PLANNED) < set(told)
    assert told["effort"] == "fast"
    assert all(value is None or isinstance(value, str | int | float | bool) for value in told.values())


@pytest.fixture
def probes(monkeypatch):
    """The settings that were probed since; each probe is answered at once."""
    seen = []

    def predict(_, options):
        seen.append(options)
        return Prediction(0.2 if options.composition == "product" else 0.3, 1.0, 0.0)

    monkeypatch.setattr(Predictor, "_predict", predict)
    return seen


def test_a_checkpoint_keeps_the_plan(tmp_path, probes):
    table, goal, path = TABLE.head(200), Goal(size="10x"), tmp_path / "c"
    found = planned(table, FAST, goal, checkpoint=Checkpoint(path)).options
    assert found == kdcode.plan(table, "10x", options=FAST).recommended.options.changed(effort="fast")
    assert probes
    probes.clear()
    assert planned(table, FAST, goal, checkpoint=Checkpoint(path)).options == found
    assert not probes
    for other in ((table, FAST, Goal(size="12x")), (table, FAST.changed(seed=1), goal), (TABLE.head(201), FAST, goal)):
        with pytest.raises(CheckpointError, match="another table, other options or another size"):
            planned(*other, checkpoint=Checkpoint(path))
    assert planned(table, FAST, goal, checkpoint=Checkpoint(path)).options == found


@pytest.mark.parametrize("step", [1, 3])
def test_a_resumed_run_to_a_size_does_not_plan_again(tmp_path, probes, step):
    table, path = TABLE.head(200), tmp_path / "c"
    arguments = {"size": "10x", "effort": "fast"}
    whole = kdcode.compress(table, **arguments)

    def stop(report):
        if report.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kdcode.compress(table, progress=stop, checkpoint=Checkpoint(path), **arguments)
    probes.clear()
    checkpoint = Checkpoint(path)
    resumed = kdcode.compress(table, checkpoint=checkpoint, **arguments)
    assert not probes
    assert checkpoint.resumed_step == step
    np.testing.assert_array_equal(resumed.codes, whole.codes)


def test_a_run_to_a_size_does_not_take_over_the_checkpoint_of_another_run(tmp_path):
    table, path = TABLE.head(200), tmp_path / "c"
    kdcode.compress(table, options=FAST, checkpoint=Checkpoint(path, every_seconds=0))
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match="another table, other options or another size"):
        kdcode.compress(table, size="10x", effort="fast", checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("bits", [0, -1, True, 2.5, "64"])
def test_bits_of_a_goal_are_an_integer(bits):
    with pytest.raises(OptionError, match=f"bits must be an integer of at least 1, got {bits!r}"):
        Goal(bits=bits)
    assert Goal(bits=np.int64(64)) == Goal(bits=64)
