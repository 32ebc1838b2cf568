"""learn_codebook: codecs for rows that are not in the sample, and what is told of their error."""

from __future__ import annotations

import numpy as np
import pytest

import kdcode
from kdcode.codec.sizes import LEARNED_HEADER_BYTES
from kdcode.data import glove_50d
from kdcode.errors import CheckpointError, OptionError, TableError
from kdcode.evaluation import relative_error
from kdcode.learning.codebook import SampleParts
from kdcode.options import CompressOptions

TABLE = glove_50d().head(3000)
FEW, OTHERS = TABLE.matrix[::2].astype(np.float32), TABLE.matrix[1::2].astype(np.float32)
SHAPE = {"codebook_size": 16, "code_length": 4, "effort": "fast"}


def error_of_others(coded, others=OTHERS):
    return relative_error(others, coded.compose(coded.codec.encode(others)))


def planted(rows, seed):
    """Rows that are exactly sums of three codewords out of 3 x 8, the same ones for every seed."""
    words = np.random.default_rng(0).normal(size=(3, 8, 16)) * np.array([4, 2, 1])[:, None, None]
    codes = np.random.default_rng(seed).integers(0, 8, size=(rows, 3))
    return sum(words[j][codes[:, j]] for j in range(3)).astype(np.float32)


def test_planted_codes_are_found_for_rows_that_were_not_there():
    coded = kdcode.learn_codebook(planted(400, 1), codebook_size=16, code_length=3, codebook_dtype="float32")
    assert error_of_others(coded, planted(400, 2)) < 1e-9
    assert coded.provenance["unseen_error"] == 0
    assert coded.provenance["unseen_rows"] == 20


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ({"code_length": 4, "effort": "fast"}, 0.97),
        ({"code_length": 8, "composition": "grouped", "groups": 2, "effort": "fast"}, 0.99),
        ({"code_length": 5, "composition": "product"}, 1.0),
        ({"code_length": 5, "composition": "product", "rotation": True}, 0.995),
    ],
    ids=["linear", "grouped", "product", "rotated"],
)
def test_other_rows_lose_less_than_with_compress(shape, share):
    options = CompressOptions.of(codebook_size=32, **shape)  # 47 rows for each codeword of a position
    for_others, for_these = (
        error_of_others(learn(FEW, options=options)) for learn in (kdcode.learn_codebook, kdcode.compress)
    )
    assert for_others < share * for_these


def test_the_sample_is_coded_as_any_other_rows():
    coded = kdcode.learn_codebook(TABLE, **SHAPE)
    np.testing.assert_array_equal(coded.codes, coded.codec.encode(TABLE.matrix))
    assert list(coded.symbols) == list(TABLE.symbols)
    assert coded.provenance["relative_error"] == pytest.approx(relative_error(TABLE, coded), rel=1e-4)
    assert coded.learning_seconds is not None


def test_the_error_of_rows_held_back_is_that_of_others():
    coded = kdcode.learn_codebook(TABLE, codebook_size=128, code_length=4, effort="fast")
    told, seen = coded.provenance["unseen_error"], coded.provenance["relative_error"]
    held = SampleParts.of(TABLE, 0).held_back
    assert coded.provenance["unseen_rows"] == len(held) == 150
    assert told == pytest.approx(relative_error(TABLE.matrix[held], coded.decode(held)), rel=0.02)
    assert told > 1.05 * seen


def test_rows_held_back_take_no_part_in_learning():
    parts = SampleParts.of(TABLE, 0)
    changed = TABLE.matrix.copy()
    changed[parts.held_back] = 100.0
    alone = {"effort": "fast", "rows_per_block": 1}  # rows of a block depend on each other
    one, other = (kdcode.learn_codebook(matrix, "30x", **alone) for matrix in (TABLE.matrix, changed))
    assert one.provenance["unseen_error"] < 1
    for name, tensor in one.codec.tensors().items():
        np.testing.assert_array_equal(tensor, other.codec.tensors()[name])
    np.testing.assert_array_equal(one.codes[parts.kept], other.codes[parts.kept])


def test_row_scales_are_fitted_to_the_rows_learned_from():
    parts = SampleParts.of(TABLE, 0)
    longer = TABLE.matrix.copy()
    longer[parts.held_back] *= 50
    one, other = (kdcode.learn_codebook(matrix, **SHAPE, scale_bits=4) for matrix in (TABLE.matrix, longer))
    np.testing.assert_array_equal(one.codec.stored["scale_levels"], other.codec.stored["scale_levels"])
    np.testing.assert_array_equal(one.codes, one.codec.encode(TABLE.matrix))


@pytest.mark.parametrize(("rows", "held"), [(2, 1), (39, 1), (40, 2), (200_000, 5000)])
def test_one_of_twenty_rows_is_held_back(rows, held):
    parts = SampleParts.of(kdcode.VectorTable(None, np.zeros((rows, 1), dtype=np.float32)), 3)
    assert len(parts.held_back) == held
    assert sorted([*parts.kept, *parts.held_back]) == list(range(rows))


def test_two_rows_are_enough():
    coded = kdcode.learn_codebook(np.eye(2, 3), codebook_size=2, code_length=1)
    assert len(coded) == 2
    assert coded.provenance["unseen_rows"] == 1


def test_a_seed_gives_the_same_codec_on_any_number_of_threads():
    first, again, other = (
        kdcode.learn_codebook(FEW, **SHAPE, seed=seed, threads=threads) for seed, threads in ((3, 1), (3, 2), (4, 2))
    )
    np.testing.assert_array_equal(first.codec.codebook, again.codec.codebook)
    np.testing.assert_array_equal(first.codes, again.codes)
    assert first.provenance == again.provenance
    assert not np.array_equal(first.codec.codebook, other.codec.codebook)


def test_more_effort_is_better_for_other_rows():
    fast, normal = (
        error_of_others(kdcode.learn_codebook(FEW, codebook_size=32, code_length=4, effort=effort))
        for effort in ("fast", "normal")
    )
    assert normal < fast


def test_weights_decide_what_is_coded_well():
    weights = np.where(np.arange(len(FEW)) < 300, 100.0, 1.0)
    plain, weighted = (
        kdcode.learn_codebook(kdcode.VectorTable(None, FEW, given), **SHAPE) for given in (None, weights)
    )
    rows = np.arange(300)
    errors = [relative_error(FEW[rows], coded.decode(rows)) for coded in (weighted, plain)]
    assert errors[0] < errors[1]


def test_a_size_is_that_of_the_final_table(tmp_path):
    own, large = (kdcode.learn_codebook(TABLE, "25x", rows=rows, effort="fast") for rows in (None, 1_000_000))
    assert own.sizes.ratio(len(TABLE), 50) >= 25
    spec = large.spec
    assert 25 <= spec.ratio(1_000_000) < 30
    assert spec.ratio(len(TABLE)) < 25  # a codebook that pays for a million rows
    assert large.provenance["unseen_error"] < own.provenance["unseen_error"]
    assert kdcode.save(large, tmp_path / "a.kdc") - large.sizes.total < LEARNED_HEADER_BYTES


def test_bytes_of_the_final_file_are_kept_to():
    coded = kdcode.learn_codebook(TABLE, "400KB", rows=20_000, effort="fast")
    symbols = TABLE.packed_symbols.nbytes * 20_000 // len(TABLE)
    assert 300_000 < coded.spec.sizes(20_000, symbols).learned_file <= 400_000


def test_bits_limit_the_code():
    coded = kdcode.learn_codebook(FEW, bits=24, effort="fast")
    assert coded.spec.bits <= 24


def test_a_stopped_run_goes_on_from_its_checkpoint(tmp_path):
    def stop_at_4(report):
        if report.step == 4:
            raise InterruptedError

    whole = kdcode.learn_codebook(FEW, **SHAPE)
    with pytest.raises(InterruptedError):
        kdcode.learn_codebook(FEW, **SHAPE, checkpoint=tmp_path / "c", progress=stop_at_4)
    steps = []
    resumed = kdcode.learn_codebook(
        FEW, **SHAPE, checkpoint=tmp_path / "c", progress=lambda one: steps.append(one.step)
    )
    assert steps[0] == 5
    np.testing.assert_array_equal(resumed.codes, whole.codes)
    np.testing.assert_array_equal(resumed.codec.codebook, whole.codec.codebook)
    with pytest.raises(CheckpointError, match="another table or other options"):
        kdcode.compress(FEW, **SHAPE, checkpoint=tmp_path / "c")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"composition": "lstm"}, "learner must be additive to learn a codebook, .* got 'straight-through'"),
        ({"learner": "encoder"}, "learner must be additive to learn a codebook, .* got 'encoder'"),
        ({"rows": 0}, "rows must be an integer of at least 1, got 0"),
        ({"rows": 2.5}, "rows must be an integer of at least 1, got 2.5"),
        ({"rows": True}, "rows must be an integer of at least 1, got True"),
        ({"size": "20x", "code_length": 8}, "code_length is chosen for size='20x'; leave one of the two out"),
        ({"size": "20x", "bits": 8}, "one of size, bits and max_error"),
        ({"size": "10MB"}, "size 10,000,000 B: the table takes no more as float32"),
        ({"max_error": 0.2}, "there is no option 'max_error'"),
        ({"threads": 0}, "threads must be an integer"),
        ({"options": 3}, "options must be CompressOptions, got int"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(OptionError, match=message):
        kdcode.learn_codebook(FEW, **given)


def test_one_row_is_no_sample():
    with pytest.raises(TableError, match="sample: expected at least 2 rows, of which one is held back, got 1"):
        kdcode.learn_codebook(np.ones((1, 4)), **SHAPE)
