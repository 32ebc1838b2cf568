"""Learning from end to end: planted codes, promises of size, seeds, weights, and work that is done once."""

from __future__ import annotations

import threading
import time

import numpy as np
import pandas
import pytest
import torch

import kdcode
from kdcode.codec.sizes import LEARNED_HEADER_BYTES
from kdcode.codec.spec import COMPOSITIONS
from kdcode.data import glove_50d
from kdcode.errors import OptionError, TableError
from kdcode.evaluation import evaluate
from kdcode.learning import compression
from kdcode.learning.gradient import refinement
from kdcode.options import LEARNER_OPTIONS, BatchOptions, CompressOptions, RefinedOptions, promised_sizes
from kdcode.symbols import StoredSymbols

GRADIENT = {"epochs": 12, "batch_size": 100, "refine_rounds": 2}
OWN_OPTIONS = {
    "additive": {"effort": "fast"},
    "straight-through": {**GRADIENT, "start": "random"},
    "algorithm-1": {"epochs": 100, "batch_size": 100},
    "encoder": GRADIENT,
    "random": {},
}
"""Options with which each learner is quick."""
ADDED_ONLY = {("encoder", "lstm"), ("encoder", "product"), ("encoder", "grouped"), ("additive", "lstm")}
"""Learners whose codewords are added, and compositions that do not add."""


def quick(learner="straight-through", **changes):
    values = {"codebook_size": 8, "code_length": 4, "learner": learner, **OWN_OPTIONS[learner], **changes}
    return CompressOptions.of(**values)


def planted(length, size, dim, scale, rows=600, seed=0):
    """A table whose rows are exactly sums of codewords."""
    random = np.random.default_rng(seed)
    words = random.normal(size=(length, size, dim)) * np.array(scale)[:, None, None]
    codes = random.integers(0, size, size=(rows, length))
    return kdcode.VectorTable(None, sum(words[j][codes[:, j]] for j in range(length)))


def small_table(rows=400):
    return glove_50d().head(rows)


def error_of(table, options):
    return kdcode.compress(table, options=options).provenance["relative_error"]


@pytest.mark.parametrize(
    ("start", "table", "size"),
    [
        ("random", planted(1, 12, 8, [1]), 12),
        ("warm", planted(1, 12, 8, [1]), 12),
        ("random", planted(2, 6, 16, [1, 1]), 12),  # redundant codes, as the paper has them: K^D >> distinct rows
        ("warm", planted(2, 8, 16, [4, 2]), 16),
        ("additive", planted(2, 8, 16, [4, 2]), 8),
    ],
)
def test_planted_codes_are_found_again(start, table, size):
    length = 1 if size == 12 and table.embedding_dim == 8 else 2
    shape = {"codebook_size": size, "code_length": length, "codebook_dtype": "float32"}
    if start == "additive":
        coded = kdcode.compress(table, **shape)
    else:
        options = quick(**shape, epochs=60, start=start, refine_rounds=5, seed=10)  # about half of all seeds find them
        coded = kdcode.compress(table, options=options)
    assert kdcode.evaluate(table, coded).relative_error < 1e-6
    # rows with equal vectors, and no others, have equal codes
    _, vector_groups = np.unique(np.round(table.matrix, 4), axis=0, return_inverse=True)
    _, code_groups = np.unique(coded.codes, axis=0, return_inverse=True)
    assert len({*zip(vector_groups, code_groups, strict=True)}) == len(np.unique(code_groups))


@pytest.mark.parametrize(
    ("learner", "composition"),
    [
        (learner, composition)
        for learner in LEARNER_OPTIONS
        for composition in COMPOSITIONS
        if (learner, composition) not in ADDED_ONLY and composition != "transform"  # see tests/learning/transform
    ],
)
@pytest.mark.parametrize("scale_bits", [0, 3])
def test_every_learner_and_composition_keeps_its_promise_of_size(composition, learner, scale_bits, tmp_path):
    table = small_table()
    options = quick(learner, composition=composition, scale_bits=scale_bits)
    promised = promised_sizes(table, options)
    coded = kdcode.compress(table, options=options)
    assert coded.sizes == promised
    assert kdcode.save(coded, tmp_path / "t.kdc") - promised.total <= 4096
    error = kdcode.evaluate(table, kdcode.load(tmp_path / "t.kdc")).relative_error
    assert error == pytest.approx(coded.provenance["relative_error"], abs=1e-5)
    most = {"random": 1.0, "algorithm-1": 0.9}.get(learner, 0.7)
    assert error < (1.15 * most if scale_bits else most)  # row scales are for cosines, and cost some of this error


def test_learned_codes_beat_random_ones_and_the_lstm_is_no_worse_than_linear():
    table = small_table()
    errors = {
        "random": error_of(table, quick("random")),
        "linear": error_of(table, quick(epochs=30)),
        "encoder": error_of(table, quick("encoder", epochs=30)),
        "lstm": error_of(table, quick(epochs=30, composition="lstm", start=None)),
        "product": error_of(table, quick(epochs=30, composition="product")),
        "additive": error_of(table, quick("additive", effort="normal")),
    }
    assert errors["linear"] < 0.7 * errors["random"]
    assert errors["encoder"] < 0.7 * errors["random"]
    assert errors["linear"] < errors["product"]
    assert errors["lstm"] <= errors["linear"]
    assert errors["additive"] == min(errors[name] for name in errors if name != "lstm")


def test_codewords_shorter_than_vectors_are_projected():
    coded = kdcode.compress(small_table(), options=quick(codebook_size=16, codeword_dim=10))
    assert coded.spec.codeword_dim == 10
    assert coded.embedding_dim == 50
    assert coded.provenance["relative_error"] < 0.8


@pytest.mark.parametrize("learner", LEARNER_OPTIONS)
def test_a_seed_gives_the_same_codes_and_another_seed_others(learner):
    first, again, other = (kdcode.compress(small_table(), options=quick(learner, seed=seed)) for seed in (3, 3, 4))
    assert np.array_equal(first.codes, again.codes)
    assert np.array_equal(first.codec.codebook, again.codec.codebook)
    assert not np.array_equal(first.codes, other.codes)


def test_random_codes_stay_as_they_were_drawn():
    plain, rounded = (
        kdcode.compress(small_table(), options=quick("random", codebook_dtype=dtype)) for dtype in ("float32", "int8")
    )
    np.testing.assert_array_equal(plain.codes, rounded.codes)
    drawn = np.bincount(plain.codes.ravel(), minlength=8) / plain.codes.size
    assert np.abs(drawn - 1 / 8).max() < 0.03


@pytest.mark.parametrize("learner", LEARNER_OPTIONS)
def test_global_generators_are_left_alone(learner):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    kdcode.compress(small_table(100), options=quick(learner))
    assert torch.equal(torch.rand(3), expected)
    assert np.random.random() == np.random.RandomState(5).random_sample()


@pytest.mark.parametrize("estimator", ["soft", "gumbel"])
def test_the_other_estimators_learn_too(estimator):
    options = quick(estimator=estimator, temperature_decay=0.2, epochs=60, logit_lr=0.3, refine_rounds=0)
    assert error_of(small_table(), options) < 0.7


@pytest.mark.parametrize("learner", ["straight-through", "encoder", "additive"])
def test_more_codewords_than_rows_are_no_trouble(learner):
    changes = {"start": "warm"} if learner == "straight-through" else {}
    assert error_of(small_table(20), quick(learner, codebook_size=64, **changes)) < 0.05


@pytest.mark.parametrize("learner", ["straight-through", "encoder"])
def test_refine_rounds_0_leaves_what_gradients_found(learner, monkeypatch):
    called = []
    monkeypatch.setattr(refinement, "solve_weights", lambda *_: called.append("solve"))
    monkeypatch.setattr(refinement, "swap_codewords", lambda *_: called.append("swap"))
    kdcode.compress(small_table(100), options=quick(learner, refine_rounds=0))
    assert called == []


def test_unknown_options_are_refused_by_name():
    with pytest.raises(OptionError, match="'codebooks'"):
        kdcode.compress(small_table(10), codebooks=3)


def test_options_of_another_learner_are_refused():
    with pytest.raises(
        OptionError, match="epochs is an option of the learner straight-through, algorithm-1 and encoder"
    ):
        kdcode.compress(small_table(10), epochs=3)


def test_a_product_code_longer_than_the_vectors_is_refused_before_work():
    with pytest.raises(OptionError, match="product code of length 51"):
        kdcode.compress(small_table(10), composition="product", code_length=51)


def test_tables_are_checked_first():
    with pytest.raises(TableError):
        kdcode.compress(kdcode.VectorTable(["a", "a"], np.ones((2, 2))))


def test_the_encoder_refuses_weights():
    table = kdcode.VectorTable(None, glove_50d().head(50).matrix, np.ones(50))
    with pytest.raises(OptionError, match="rows with weights are for other learners than the encoder"):
        kdcode.compress(table, learner="encoder")


@pytest.mark.parametrize(
    "changes", [{}, {"composition": "product"}, {"codeword_dim": 20}, {"refine_rounds": 0}], ids=str
)
def test_rows_that_count_more_are_nearer_by_gradient_too(changes):
    matrix = glove_50d().head(400).matrix
    weights = np.where(np.arange(400) < 80, 20.0, 1.0)
    options = CompressOptions.of(codebook_size=8, code_length=6, learner="straight-through", epochs=30, **changes)
    even, weighted = (
        kdcode.compress(kdcode.VectorTable(None, matrix, used), options=options) for used in (None, weights)
    )
    lost = [np.square(coded.decode(np.arange(80)) - matrix[:80]).sum() for coded in (even, weighted)]
    assert lost[1] < 0.9 * lost[0]


@pytest.mark.parametrize("composition", ["linear", "lstm"])
def test_scales_keep_lengths_and_codes_keep_directions(composition):
    matrix = glove_50d().head(300).matrix * np.exp(np.random.default_rng(0).normal(size=(300, 1)))
    matrix[7] = 0
    table = kdcode.VectorTable(None, matrix)
    own = {"epochs": 10} if composition == "lstm" else {"effort": "fast"}
    options = CompressOptions.of(codebook_size=16, code_length=8, composition=composition, **own)
    plain, scaled = (kdcode.compress(table, options=options, scale_bits=bits) for bits in (0, 6))
    one, other = evaluate(table, plain), evaluate(table, scaled)
    assert other.mean_cosine > one.mean_cosine + 0.02
    assert other.norm_error < 0.05 < one.norm_error
    assert not scaled.decode(7).any()
    assert scaled.sizes == promised_sizes(table, options.changed(scale_bits=6))
    assert scaled.provenance["mean_cosine"] == pytest.approx(other.mean_cosine, abs=1e-5)
    rows = np.arange(8, 20)
    again = scaled.compose(scaled.encode(matrix[rows]))
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(again, matrix[rows], strict=True)]
    assert np.mean(cosines) > other.mean_cosine - 0.1
    lengths = np.linalg.norm(matrix[rows], axis=1)
    np.testing.assert_allclose(np.linalg.norm(again, axis=1), lengths, rtol=0.2)


@pytest.mark.parametrize("learner", ["additive", "straight-through", "encoder"])
def test_lengths_do_not_count_with_the_loss_cosine(learner):
    matrix = glove_50d().head(600).matrix
    longer = matrix * np.where(np.arange(600) % 2, 4.0, 1.0)[:, None]
    options = quick(learner, codebook_size=16, code_length=6, loss="cosine")
    one, other = (kdcode.compress(kdcode.VectorTable(None, used), options=options) for used in (matrix, longer))
    np.testing.assert_allclose(one.provenance["mean_cosine"], other.provenance["mean_cosine"], atol=5e-3)
    table = kdcode.VectorTable(None, longer)
    plain = kdcode.compress(table, options=options.changed(loss="squared"))
    assert evaluate(table, other).mean_cosine > evaluate(table, plain).mean_cosine + 0.005


def test_fine_tuning_by_gradient_goes_on_from_additive_codes():
    table = glove_50d().head(800)
    tuned = kdcode.compress(
        table,
        options=quick(start="additive", epochs=100, batch_size=1000, codebook_dtype="float32"),
    )
    additive = kdcode.compress(table, options=quick("additive", effort="normal", codebook_dtype="float32"))
    assert tuned.provenance["relative_error"] <= additive.provenance["relative_error"]
    assert (tuned.codes == additive.codes).mean() > 0.5


def test_symbols_are_packed_once_and_the_table_is_evaluated_once(monkeypatch, tmp_path):
    counts = {"pack": 0, "evaluate": 0}
    build, measure = StoredSymbols.build, compression.compare_part

    def packing(symbols):
        counts["pack"] += 1
        return build(symbols)

    def evaluating(*args):
        counts["evaluate"] += 1
        return measure(*args)

    monkeypatch.setattr(StoredSymbols, "build", packing)
    monkeypatch.setattr(compression, "compare_part", evaluating)
    table = kdcode.VectorTable([f"s{row}" for row in range(150)], glove_50d().head(150).matrix)
    coded = kdcode.compress(table, size="10x", effort="fast")
    kdcode.save(coded, tmp_path / "t.kdc")
    assert promised_sizes(table, CompressOptions()).symbols == coded.sizes.symbols
    assert counts == {"pack": 1, "evaluate": 1}
    assert kdcode.load(tmp_path / "t.kdc").symbols_at([3, 149]) == ["s3", "s149"]
    assert {"relative_error", "mean_cosine", "norm_error"} <= set(coded.provenance)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_torch_threads_is_what_it_was(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        kdcode.compress(small_table(5000), options=quick("additive", code_length=9))  # several chunks of rows
        found = [torch.get_num_threads()]
        asking = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        asking.start()
        asking.join()
        assert found == [threads, threads]
    finally:
        torch.set_num_threads(before)


def test_two_runs_in_two_python_threads_give_their_torch_threads_back_and_find_what_one_finds():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    table = small_table(5000)
    options = [quick("additive", code_length=9, seed=seed) for seed in (0, 1)]
    found, counts, barrier = {}, [], threading.Barrier(2)

    def run(number):
        counts.append(torch.get_num_threads())
        barrier.wait()
        time.sleep(0.02 * number)
        found[number] = kdcode.compress(table, options=options[number])
        counts.append(torch.get_num_threads())

    try:
        both = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert counts == [2] * 4
        assert torch.get_num_threads() == 2
        asking = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        asking.start()
        asking.join()
        assert counts[-1] == 2
    finally:
        torch.set_num_threads(before)
    for number in range(2):
        alone = kdcode.compress(table, options=options[number])
        assert found[number].provenance["relative_error"] == pytest.approx(alone.provenance["relative_error"], rel=0.02)


def test_options_are_recorded_as_they_were_used():
    provenance = kdcode.compress(small_table(60), options=quick(epochs=None)).provenance
    assert provenance["options"]["epochs"] == 100
    assert provenance["options"]["codebook_size"] == 8
    assert provenance["learner"] == provenance["options"]["learner"] == "straight-through"
    assert set(provenance["versions"]) == {"kdcode", "torch", "numpy"}


SOURCES = {
    "array": lambda table: table.matrix,
    "tensor": lambda table: torch.from_numpy(table.matrix),
    "bfloat16": lambda table: torch.from_numpy(table.matrix).bfloat16(),
    "parameter": lambda table: torch.nn.Parameter(torch.from_numpy(table.matrix)),
    "layer": lambda table: torch.nn.Embedding.from_pretrained(torch.from_numpy(table.matrix)),
    "dict": lambda table: dict(zip(table.symbols, table.matrix, strict=True)),
    "frame": lambda table: pandas.DataFrame(table.matrix, index=list(table.symbols)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_tables_may_be_given_in_any_form(source):
    table = small_table(60)
    given = SOURCES[source](table)
    if source == "bfloat16":  # the rounding tips codes, and others after them
        table = kdcode.VectorTable(table.symbols, given.float().numpy())
    coded = kdcode.compress(given, codebook_size=4, code_length=3, effort="fast")
    assert len(coded) == 60
    if source in ("dict", "frame"):
        assert list(coded) == list(table)
    assert kdcode.plan(given, "10x", effort="fast").recommended.ratio >= 10
    expected = kdcode.compress(table, codebook_size=4, code_length=3, effort="fast")
    assert coded.provenance["relative_error"] == expected.provenance["relative_error"]
    assert kdcode.evaluate(given, coded).relative_error == pytest.approx(coded.provenance["relative_error"], abs=1e-5)


def test_a_path_is_read(tmp_path):
    kdcode.write(small_table(60), tmp_path / "words.txt")
    coded = kdcode.compress(tmp_path / "words.txt", codebook_size=4, code_length=3, effort="fast")
    assert list(coded) == list(small_table(60))


def test_a_goal_may_be_a_size_bits_or_an_error():
    table = small_table(300)
    assert kdcode.compress(table, "20x", effort="fast").sizes.ratio(300, 50) >= 20
    assert kdcode.compress(table, bits=24, effort="fast").spec.bits <= 24
    assert kdcode.compress(table, max_error=0.4, effort="fast").provenance["relative_error"] < 0.44
    with pytest.raises(OptionError, match="one of size, bits and max_error"):
        kdcode.compress(table, "20x", bits=24)
    with pytest.raises(OptionError, match="give options by name: options="):
        kdcode.compress(table, CompressOptions())


def test_provenance_has_what_the_codes_lose():
    coded = kdcode.compress(small_table(100), codebook_size=2, code_length=3, effort="fast")
    assert coded.provenance["shared_codes"] == coded.shared_codes > 0
    assert 0 < coded.provenance["recall_at_10"] < 1
    assert coded.provenance["recall_at_10"] == pytest.approx(
        kdcode.evaluate(small_table(100), coded).recall_at_10, abs=1e-6
    )


def test_the_header_of_a_learned_table_keeps_to_its_share(tmp_path):
    table = small_table(60)
    for learner in LEARNER_OPTIONS:
        options = CompressOptions.of(learner=learner, codebook_size=4, code_length=3, scale_bits=3)
        if isinstance(options.learning, BatchOptions):
            options = options.changed(epochs=1)
        if isinstance(options.learning, RefinedOptions):
            options = options.changed(refine_rounds=0)
        coded = kdcode.compress(table, options=options)
        assert kdcode.save(coded, tmp_path / f"{learner}.kdc") - coded.sizes.total < LEARNED_HEADER_BYTES


def test_progress_is_shown(capfd, monkeypatch):
    monkeypatch.setattr("kdcode.progress_bar._LINE_SECONDS", 0.0)  # where there is no terminal, a line now and then
    kdcode.compress(small_table(60), "10x", effort="fast", progress=True)
    shown = capfd.readouterr().err
    assert "planning" in shown
    assert "learning" in shown
