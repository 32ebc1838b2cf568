"""Learning from end to end: planted codes, promises, determinism, and runs that are killed and go on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError, OptionError, TableError
from kdcode.evaluation import evaluate
from kdcode.learning import Checkpoint
from kdcode.options import COMPOSITION_NAMES, LEARNER_NAMES, CompressOptions, promised_sizes

QUICK = CompressOptions(
    learner="straight-through", codebook_size=8, code_length=4, epochs=12, batch_size=100, start="random", settle=2
)

ADDED_ONLY = {("encoder", "lstm"), ("encoder", "product"), ("encoder", "grouped"), ("additive", "lstm")}
"""Learners whose codewords are added, and compositions that do not add."""


def planted(length, size, dim, scale, rows=600, seed=0):
    """A table whose rows are exactly sums of codewords."""
    random = np.random.default_rng(seed)
    words = random.normal(size=(length, size, dim)) * np.array(scale)[:, None, None]
    codes = random.integers(0, size, size=(rows, length))
    return kdcode.VectorTable(None, sum(words[j][codes[:, j]] for j in range(length)))


def small_table(rows=400):
    return glove_50d().head(rows)


@pytest.mark.parametrize(
    ("start", "table", "size"),
    [
        ("random", planted(1, 12, 8, [1]), 12),
        ("warm", planted(1, 12, 8, [1]), 12),
        ("random", planted(2, 6, 16, [1, 1]), 12),  # redundant codes, as the paper has them: K^D >> distinct rows
        ("warm", planted(2, 8, 16, [4, 2]), 16),
    ],
)
def test_planted_codes_are_found_again(start, table, size):
    length = 1 if size == 12 and table.embedding_dim == 8 else 2
    options = QUICK.changed(codebook_size=size, code_length=length, epochs=60, start=start, numbers="float32", settle=5)
    coded = kdcode.compress(table, options)
    assert kdcode.evaluate(table, coded).relative_error < 1e-6
    # rows with equal vectors, and no others, have equal codes
    _, vector_groups = np.unique(np.round(table.matrix, 4), axis=0, return_inverse=True)
    _, code_groups = np.unique(coded.codes, axis=0, return_inverse=True)
    assert len({*zip(vector_groups, code_groups, strict=True)}) == len(np.unique(code_groups))


@pytest.mark.parametrize(
    ("learner", "composition"),
    [
        (learner, composition)
        for learner in LEARNER_NAMES
        for composition in COMPOSITION_NAMES
        if (learner, composition) not in ADDED_ONLY
    ],
)
def test_every_learner_and_composition_keeps_its_promise_of_size(composition, learner, tmp_path):
    table = small_table()
    options = QUICK.changed(composition=composition, learner=learner, numbers="float16")
    promised = promised_sizes(table, options)
    coded = kdcode.compress(table, options)
    assert coded.sizes == promised
    assert kdcode.save(coded, tmp_path / "t.kdc") - promised.total <= 4096
    error = kdcode.evaluate(table, kdcode.load(tmp_path / "t.kdc")).relative_error
    assert error == pytest.approx(coded.provenance["relative_error"], abs=1e-5)
    assert error < (1.0 if learner == "random" else 0.7)


def test_learned_codes_beat_random_ones_and_the_lstm_is_no_worse_than_linear():
    table = small_table()
    errors = {
        name: kdcode.compress(table, QUICK.changed(**changes), epochs=30).provenance["relative_error"]
        for name, changes in {
            "random": {"learner": "random"},
            "linear": {},
            "encoder": {"learner": "encoder"},
            "lstm": {"composition": "lstm"},
            "product": {"composition": "product"},
        }.items()
    }
    assert errors["linear"] < 0.7 * errors["random"]
    assert errors["encoder"] < 0.7 * errors["random"]
    assert errors["linear"] < errors["product"]
    assert errors["lstm"] <= errors["linear"]


def test_codewords_shorter_than_vectors_are_projected():
    coded = kdcode.compress(small_table(), QUICK, codebook_size=16, codeword_dim=10)
    assert coded.codebook.codeword_dim == 10
    assert coded.embedding_dim == 50
    assert coded.provenance["relative_error"] < 0.8


@pytest.mark.parametrize("learner", LEARNER_NAMES)
def test_a_seed_gives_the_same_codes_and_another_seed_others(learner):
    first, again, other = (kdcode.compress(small_table(), QUICK, learner=learner, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.codes, again.codes)
    assert np.array_equal(first.codebook.stored, again.codebook.stored)
    assert not np.array_equal(first.codes, other.codes)


def test_random_codes_stay_as_they_were_drawn():
    plain, rounded = (
        kdcode.compress(small_table(), QUICK, learner="random", numbers=kind) for kind in ("float32", "int8")
    )
    np.testing.assert_array_equal(plain.codes, rounded.codes)
    drawn = np.bincount(plain.codes.ravel(), minlength=8) / plain.codes.size
    assert np.abs(drawn - 1 / 8).max() < 0.03


@pytest.mark.parametrize("learner", LEARNER_NAMES)
def test_global_generators_are_left_alone(learner):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    kdcode.compress(small_table(100), QUICK, learner=learner, epochs=1)
    assert torch.equal(torch.rand(3), expected)
    assert np.random.random() == np.random.RandomState(5).random_sample()


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_reports_tell_the_whole_run(learner):
    reports = []
    kdcode.compress(small_table(), QUICK, learner=learner, temperature_decay=0.5, on_step=reports.append)
    assert [report.step for report in reports] == list(range(1, 12 * 4 + 2 + 1))
    assert {report.total_steps for report in reports} == {50}
    assert reports[-1].loss < reports[0].loss
    assert 0 < reports[4].codes_changed <= 1  # the rows' second visit
    assert reports[0].temperature == 1
    assert reports[47].temperature == pytest.approx(1 / (1 + 0.5 * 11))


@pytest.mark.parametrize("choice", ["soft", "gumbel"])
def test_the_other_choices_learn_too(choice):
    coded = kdcode.compress(
        small_table(), QUICK, choice=choice, temperature_decay=0.2, epochs=60, logit_rate=0.3, settle=0
    )
    assert coded.provenance["relative_error"] < 0.7


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_more_codewords_than_rows_are_no_trouble(learner):
    table = small_table(20)
    coded = kdcode.compress(table, QUICK, learner=learner, codebook_size=64, start="warm")
    assert coded.provenance["relative_error"] < 0.05


@pytest.mark.parametrize("learner", LEARNER_NAMES)
def test_one_row_and_equal_rows(learner):
    options = QUICK.changed(learner=learner, numbers="float32")
    one = kdcode.compress(kdcode.VectorTable(["only"], [[1.0, 2.0]]), options, code_length=1)
    np.testing.assert_allclose(one["only"], [1, 2], rtol=1e-5)
    same = kdcode.compress(kdcode.VectorTable(None, np.ones((30, 3))), options)
    np.testing.assert_allclose(same.decode(7), [1, 1, 1], rtol=1e-5)


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_settle_0_leaves_what_gradients_found(learner, monkeypatch):
    called = []
    monkeypatch.setattr("kdcode.learning.learners.solve_weights", lambda *_: called.append("solve"))
    monkeypatch.setattr("kdcode.learning.learners.settle_codes", lambda *_: called.append("settle"))
    kdcode.compress(small_table(100), QUICK, learner=learner, settle=0)
    assert called == []


def test_curvature_0_is_algorithm_1_in_every_stage(monkeypatch):
    import kdcode.learning.straight_through as module

    original, seen = module.CHOICES["straight-through"], []

    def spy(*args, curvature, **more):
        seen.append(curvature)
        return original(*args, curvature=curvature, **more)

    monkeypatch.setitem(module.CHOICES, "straight-through", spy)
    kdcode.compress(small_table(100), QUICK, composition="lstm", curvature=0.0, epochs=5)
    assert seen
    assert all(value is None for value in seen)


class KilledError(Exception):
    """Stands for whatever ends a run."""


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, (1, 23, 48, 49)),
        ({"start": "warm"}, (10,)),
        ({"learner": "encoder"}, (1, 23, 48, 49)),
        ({"learner": "additive", "start": None}, (1, 2, 3, 50, 63)),
        ({"composition": "lstm", "lstm_from": "linear"}, (20, 49, 53, 59)),
        ({"composition": "lstm"}, (20, 63, 67)),
        ({"composition": "lstm", "lstm_from": "start", "settle": 0}, (30,)),
    ],
    ids=["linear", "warm", "encoder", "additive", "lstm from linear", "lstm", "lstm from the start"],
)
def test_a_killed_run_goes_on_and_ends_the_same(changes, steps, tmp_path):
    options = QUICK.changed(**changes)
    whole = kdcode.compress(small_table(), options)
    for step in steps:

        def die(report, step=step):
            if report.step == step:
                raise KilledError

        path = tmp_path / f"{step}.checkpoint"
        with pytest.raises(KilledError):
            kdcode.compress(small_table(), options, on_step=die, checkpoint=Checkpoint(path))
        checkpoint, reports = Checkpoint(path), []
        resumed = kdcode.compress(small_table(), options, checkpoint=checkpoint, on_step=reports.append)
        assert checkpoint.resumed_step == step
        assert reports[0].step == step + 1
        assert np.array_equal(resumed.codes, whole.codes), step
        assert np.array_equal(resumed.codebook.stored, whole.codebook.stored), step
        checkpoint.remove()
        assert not path.exists()


def test_checkpoints_are_written_as_often_as_asked(tmp_path):
    path = tmp_path / "c"
    steps = []

    def look(report):
        steps.append(torch.load(path, weights_only=True)["state"]["step"] if path.exists() else 0)

    kdcode.compress(small_table(100), QUICK, epochs=3, checkpoint=Checkpoint(path, every_seconds=0), on_step=look)
    assert steps == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("content", [b"", b"something else", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        kdcode.compress(small_table(50), QUICK, checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c"
    kdcode.compress(small_table(100), QUICK, checkpoint=Checkpoint(path, every_seconds=0))
    for other in (QUICK.changed(seed=9), QUICK.changed(epochs=13)):
        with pytest.raises(CheckpointError, match="another table or other options"):
            kdcode.compress(small_table(100), other, checkpoint=Checkpoint(path))
    with pytest.raises(CheckpointError, match="another table"):
        kdcode.compress(small_table(101), QUICK, checkpoint=Checkpoint(path))


def test_unknown_options_are_refused_by_name():
    with pytest.raises(OptionError, match="'codebooks'"):
        kdcode.compress(small_table(10), codebooks=3)


def test_a_product_code_longer_than_the_vectors_is_refused_before_work():
    with pytest.raises(OptionError, match="product code of length 51"):
        kdcode.compress(small_table(10), composition="product", code_length=51)


def test_tables_are_checked_first():
    with pytest.raises(TableError):
        kdcode.compress(kdcode.VectorTable(["a", "a"], np.ones((2, 2))))


def test_rows_that_count_more_are_nearer_by_gradient_too():
    matrix = glove_50d().head(400).matrix
    weights = np.where(np.arange(400) < 80, 20.0, 1.0)
    for options in ({}, {"composition": "product"}, {"codeword_dim": 20}, {"settle": 0}):
        even, weighted = (
            kdcode.compress(
                kdcode.VectorTable(None, matrix, used),
                codebook_size=8,
                code_length=6,
                learner="straight-through",
                epochs=30,
                **options,
            )
            for used in (None, weights)
        )
        lost = [np.square(coded.decode(np.arange(80)) - matrix[:80]).sum() for coded in (even, weighted)]
        assert lost[1] < 0.9 * lost[0], options


@pytest.mark.parametrize("composition", ["linear", "lstm"])
def test_scales_keep_lengths_and_codes_keep_directions(composition):
    matrix = glove_50d().head(500).matrix * np.exp(np.random.default_rng(0).normal(size=(500, 1)))
    matrix[7] = 0
    table = kdcode.VectorTable(None, matrix)
    options = CompressOptions(codebook_size=16, code_length=8, composition=composition, epochs=10, effort="fast")
    plain, scaled = (kdcode.compress(table, options, scale_bits=bits) for bits in (0, 6))
    one, other = evaluate(table, plain), evaluate(table, scaled)
    assert other.mean_cosine > one.mean_cosine + 0.02
    assert other.norm_error < 0.05 < one.norm_error
    assert not scaled.decode(7).any()
    assert scaled.sizes == promised_sizes(table, options.changed(scale_bits=6))
    assert scaled.provenance["mean_cosine"] == pytest.approx(other.mean_cosine, abs=1e-5)
    rows = np.arange(8, 20)
    again = scaled.compose(scaled.encode(matrix[rows]))  # codes of the same directions, whatever their lengths
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(again, matrix[rows], strict=True)]
    assert np.mean(cosines) > other.mean_cosine - 0.1


def test_lengths_do_not_count_with_the_loss_cosine():
    matrix = glove_50d().head(600).matrix
    longer = matrix * np.where(np.arange(600) % 2, 4.0, 1.0)[:, None]
    one, other = (
        kdcode.compress(kdcode.VectorTable(None, used), codebook_size=16, code_length=6, loss="cosine")
        for used in (matrix, longer)
    )
    np.testing.assert_allclose(one.provenance["mean_cosine"], other.provenance["mean_cosine"], atol=5e-3)
    plain = kdcode.compress(kdcode.VectorTable(None, longer), codebook_size=16, code_length=6)
    even = kdcode.VectorTable(None, longer)
    assert evaluate(even, other).mean_cosine > evaluate(even, plain).mean_cosine + 0.01


def test_fine_tuning_by_gradient_goes_on_from_additive_codes():
    table = glove_50d().head(800)
    options = CompressOptions(codebook_size=8, code_length=4, effort="fast", numbers="float32", loss="cosine")
    tuned = kdcode.compress(table, options, learner="straight-through", start="additive", epochs=100)
    additive = kdcode.compress(table, options)
    assert tuned.provenance["mean_cosine"] > additive.provenance["mean_cosine"]
    assert (tuned.codes == additive.codes).mean() > 0.5


def test_fine_tuning_resumes_in_either_stage(tmp_path):
    options = CompressOptions(
        codebook_size=8, code_length=4, effort="fast", learner="straight-through", start="additive", epochs=30
    )
    table = glove_50d().head(300)
    whole = kdcode.compress(table, options)
    for last in (3, 12):

        def stop(report, last=last):
            if report.step == last:
                raise RuntimeError("enough")

        path = tmp_path / f"{last}.checkpoint"
        with pytest.raises(RuntimeError, match="enough"):
            kdcode.compress(table, options, on_step=stop, checkpoint=Checkpoint(path))
        resumed = kdcode.compress(table, options, checkpoint=Checkpoint(path))
        np.testing.assert_array_equal(resumed.codes, whole.codes)
