import math

import numpy as np
import pytest
import torch

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.learning.additive import EFFORTS, AdditiveLearner, blocks_of, water_level
from kdcode.learning.run import Run
from kdcode.learning.starts import STARTS
from kdcode.learning.target import Target, can_shift
from kdcode.options import CompressOptions

FAST = CompressOptions(codebook_size=16, code_length=6, effort="fast", numbers="float32")


def learner_of(table, options=FAST):
    shape = options.code_shape(len(table), table.embedding_dim)
    target = Target.of(table, centred=can_shift(shape))
    return AdditiveLearner(target, STARTS[options.start_name](target, shape, options.seed), options)


def error_of(table, options=FAST, **changes):
    return kdcode.compress(table, options, **changes).provenance["relative_error"]


def test_cooling_leaves_the_warm_start_far_behind():
    learner = learner_of(glove_50d().head(1000), FAST.changed(effort="normal"))
    reports = []
    start = learner.best.error
    best = learner.run(Run(0, on_step=reports.append))
    searched = reports[0].loss
    assert searched < start
    assert best.error < 0.95 * searched
    assert best.error == pytest.approx(learner.target.error(best.codes, learner.composition))
    assert [report.step for report in reports] == list(range(1, len(learner.rounds) + 1))
    melted = [number for number, report in enumerate(reports) if math.isinf(report.temperature)]
    assert len(melted) == 1
    assert reports[melted[0]].loss > 0.8  # all is forgotten
    assert reports[melted[0] - 1].loss > best.error


def test_more_effort_gives_less_error():
    table = glove_50d().head(600)
    fast, normal = (error_of(table, effort=effort) for effort in ("fast", "normal"))
    assert normal < 0.98 * fast
    long = {"codebook_size": 8, "code_length": 40}
    assert error_of(table, effort="normal", **long) <= error_of(table, effort="fast", **long)
    shape = FAST.code_shape(600, 50)
    fast_rounds, normal_rounds, best_rounds = (len(EFFORTS[name].rounds(shape)) for name in ("fast", "normal", "best"))
    assert fast_rounds < normal_rounds < best_rounds


def test_fast_cools_only_where_a_beam_is_not_enough():
    table = glove_50d().head(600)
    for changes, rounds in (
        ({"code_length": 8}, 1),
        ({"code_length": 9}, 7),
        ({"codeword_dim": 20}, 7),
        ({"shared_codebook": True}, 7),
        ({"composition": "product"}, 7),
    ):
        learner = learner_of(table, FAST.changed(**changes))
        assert len(learner.rounds) == rounds, changes
    options = FAST.changed(code_length=24)
    learner = learner_of(table, options)
    reports = []
    learner.run(Run(0, on_step=reports.append))
    assert reports[-1].loss < 0.97 * reports[0].loss


def test_a_run_that_goes_wrong_ends_with_its_start(monkeypatch):
    learner = learner_of(glove_50d().head(300))
    before = learner.best.error
    monkeypatch.setattr("kdcode.learning.additive.solve_codewords", lambda _, __, words, *___, **____: 3 * words)
    best = learner.run(Run(0))
    assert best.error == before
    assert learner.target.error(best.codes, learner.composition) == pytest.approx(before)


@pytest.mark.parametrize(("size", "length"), [(3, 5), (37, 3), (2, 9), (300, 2)])
def test_any_codebook_size_and_code_length_will_do(size, length):
    assert error_of(glove_50d().head(400), codebook_size=size, code_length=length) < 0.9


def test_short_codewords_come_with_the_best_basis():
    table = glove_50d().head(800)
    options = FAST.changed(codeword_dim=20, codebook_size=16, code_length=12)
    coded = kdcode.compress(table, options)
    assert coded.composition.weights()["projection"].shape == (20, 50)
    matrix = table.matrix.astype(np.float64)
    values = np.linalg.svd(matrix, compute_uv=False) ** 2
    around_mean = np.square(matrix - matrix.mean(axis=0)).sum()
    cut_off = values[20:].sum() / around_mean  # what no code of 20 numbers can give back
    error = coded.provenance["relative_error"]
    assert cut_off < error < error_of(table, options, learner="straight-through", epochs=40)


def test_product_codes_are_blocks_of_their_own():
    options = FAST.changed(composition="product", code_length=7)
    learner = learner_of(glove_50d().head(300), options)
    columns = [block.columns for block in blocks_of(learner.composition)]
    assert [part.stop - part.start for part in columns] == [8, 7, 7, 7, 7, 7, 7]
    assert columns[-1].stop == 50
    best = learner.run(Run(0))
    warm = learner_of(glove_50d().head(300), options).best.error
    assert best.error < warm


def test_the_water_level_fills_the_spectrum_up_to_the_error():
    spectrum = torch.tensor([5.0, 3.0, 1.0, 0.5], dtype=torch.float64)
    assert water_level(spectrum, 2.5) == pytest.approx(2 / 3)  # 3θ + 0.5: the smallest is under water
    assert water_level(spectrum, 9.5) == pytest.approx(5.0)
    assert water_level(spectrum, 0.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("composition", ["product", "grouped"])
@pytest.mark.parametrize("start", ["warm", "random"])
def test_a_rotation_is_orthonormal_and_worth_its_bytes(composition, start):
    table = glove_50d().head(1500)
    options = FAST.changed(composition=composition, code_length=10, start=start, numbers="float32")
    plain, turned = (kdcode.compress(table, options, rotation=rotation) for rotation in (False, True))
    rotation = turned.composition.weights()["rotation"]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(50), atol=1e-4)
    assert turned.provenance["relative_error"] < 0.95 * plain.provenance["relative_error"]


@pytest.mark.parametrize("size", [6, 64])
@pytest.mark.parametrize("start", ["warm", "random"])
def test_shared_codewords_stay_the_same_and_learn(size, start):
    table = glove_50d().head(800)
    options = FAST.changed(shared_codebook=True, codebook_size=size, code_length=8, start=start)
    learner = learner_of(table, options)
    before = learner.best.error
    best = learner.run(Run(0))
    words = learner.composition.codebook.detach()
    torch.testing.assert_close(words, words[:1].expand_as(words), atol=1e-5, rtol=0)
    assert best.error < 0.97 * before
    coded = kdcode.compress(table, options)
    assert coded.codebook.stored.shape == (1, size, 50)
    assert coded.sizes == kdcode.options.promised_sizes(table, options)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"codeword_dim": 20},
        {"composition": "product"},
        {"composition": "grouped"},
        {"composition": "grouped", "rotation": True},
        {"shared_codebook": True, "codebook_size": 64},
    ],
)
@pytest.mark.parametrize("start", ["warm", "random"])
def test_rows_that_count_more_are_nearer(changes, start):
    matrix = glove_50d().head(600).matrix
    weights = np.where(np.arange(600) < 100, 20.0, 1.0)
    even, weighted = (
        kdcode.compress(kdcode.VectorTable(None, matrix, used), FAST, **changes, start=start)
        for used in (None, weights)
    )
    lost = [np.square(coded.decode(np.arange(100)) - matrix[:100]).sum() for coded in (even, weighted)]
    assert lost[1] < 0.85 * lost[0]
    assert "weighted_error" not in even.provenance
    copies = weighted.decode(np.arange(600))
    mean = weights @ matrix.astype(np.float64) / weights.sum()
    expected = (weights @ np.square(matrix - copies).sum(axis=1)) / (weights @ np.square(matrix - mean).sum(axis=1))
    assert weighted.provenance["weighted_error"] == pytest.approx(expected, rel=1e-3)


def test_the_scale_of_weights_is_no_matter_and_zero_leaves_a_row_out():
    matrix = glove_50d().head(300).matrix
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    one, many = (kdcode.compress(kdcode.VectorTable(None, matrix, scale * weights), FAST) for scale in (1, 1000))
    np.testing.assert_array_equal(one.codes, many.codes)
    alone = error_of(kdcode.VectorTable(None, matrix[:200]))
    assert one.provenance["weighted_error"] < 1.1 * alone


def test_the_encoder_refuses_weights():
    table = kdcode.VectorTable(None, glove_50d().head(50).matrix, np.ones(50))
    with pytest.raises(OptionError, match="rows with weights are for other learners than the encoder"):
        kdcode.compress(table, learner="encoder")


def test_it_stops_where_nothing_is_left_to_gain():
    words = np.random.default_rng(0).normal(size=(5, 8))
    table = kdcode.VectorTable(None, words[np.arange(200) % 5])
    reports = []
    coded = kdcode.compress(table, codebook_size=8, code_length=1, numbers="float32", on_step=reports.append)
    assert coded.provenance["relative_error"] < 1e-9
    assert len(reports) < 5
