from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from language_model import (
    LARGE,
    LARGE_SHORTENED,
    SMALL,
    LanguageModel,
    Trainer,
    in_lanes,
    perplexity,
    start_weights,
    trained_table,
)
from penn_treebank import made_up_corpus
from torch import nn

from kdcode.nn import KDEmbedding

TINY = replace(SMALL, hidden=12, epochs=3, constant_epochs=1, unroll=10, lanes=4)
CORPUS = made_up_corpus(words=50, tokens=2000)


def coded_embedding(composition: str) -> KDEmbedding:
    codes = torch.randint(6, (50, 3), generator=torch.Generator().manual_seed(0))
    return KDEmbedding.from_codes(codes, 6, 12, composition=composition)


def fresh(embedding: nn.Module | None = None, recipe=TINY) -> LanguageModel:
    model = LanguageModel(embedding or nn.Embedding(50, 12), 50, recipe)
    start_weights(model, recipe, seed=0)
    return model


def test_lanes_are_stretches_of_the_text():
    assert in_lanes(torch.arange(11), 3).tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_rates_hold_and_then_fall():
    assert [SMALL.rate_factor(epoch) for epoch in range(7)] == [1, 1, 1, 1, 0.5, 0.25, 0.125]
    assert LARGE.rate_factor(13) == 1
    assert LARGE.rate_factor(15) == pytest.approx(1.15**-2)


def test_a_model_that_knows_nothing_is_as_perplexed_as_there_are_words():
    model = fresh()
    nn.init.zeros_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    assert perplexity(model, CORPUS.valid) == pytest.approx(50, rel=1e-5)


def test_perplexity_by_pieces_is_that_of_the_whole_text():
    model = fresh()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10)  # so that the state matters
        logits, _ = model(CORPUS.valid[:-1, None])
    loss = nn.functional.cross_entropy(logits, CORPUS.valid[1:])
    assert perplexity(model, CORPUS.valid, unroll=7) == pytest.approx(float(loss.exp()), rel=1e-4)


@pytest.mark.parametrize("embedding", [None, "linear", "lstm"])
def test_training_learns_the_text(embedding):
    torch.manual_seed(0)
    recipe = replace(TINY, epochs=10, constant_epochs=10, spread=0.5, composition_rate=1e-2)
    model = fresh(coded_embedding(embedding) if embedding else None, recipe)
    run = Trainer(model, recipe).train(CORPUS)
    assert run.train_perplexity[-1] < 0.7 * run.train_perplexity[0]
    assert run.valid_perplexity[-1] == pytest.approx(perplexity(model, CORPUS.valid, TINY.lanes))
    assert len(run.seconds) == len(run.train_perplexity) == 10


@pytest.mark.parametrize("composition", ["linear", "lstm"])
def test_a_run_that_is_taken_up_again_ends_the_same(tmp_path, composition):
    recipe = replace(TINY, dropout=0.2)

    def model() -> LanguageModel:
        torch.manual_seed(0)
        return fresh(coded_embedding(composition), recipe)

    whole = model()
    Trainer(whole, recipe).train(CORPUS)
    Trainer(model(), replace(recipe, epochs=1), tmp_path / "run.pt").train(CORPUS)
    torch.manual_seed(99)  # what was drawn in between must not matter
    again = model()
    run = Trainer(again, recipe, tmp_path / "run.pt").train(CORPUS)
    assert len(run.valid_perplexity) == 3
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def trained_by(trainer):
    """Names of the weights that each optimiser trains, by the kind of optimiser."""
    names = {id(weight): name for name, weight in trainer.model.named_parameters()}
    return {
        type(optimizer).__name__: {names[id(weight)] for group in optimizer.param_groups for weight in group["params"]}
        for optimizer in trainer.optimizers
    }


def test_an_lstm_composition_has_its_own_optimizer():
    by = trained_by(Trainer(fresh(coded_embedding("lstm")), TINY))
    assert by["Adam"] == {f"embedding.codec.{name}" for name in ("codebook", "basis", "recurrent", "bias")}
    assert set(by) == {"SGD", "Adam"}
    assert set(trained_by(Trainer(fresh(coded_embedding("linear")), TINY))) == {"SGD"}


def test_learned_codes_have_row_wise_steps():
    layer = KDEmbedding(len(CORPUS.words), TINY.hidden, codebook_size=4, code_length=4, assignment="query")
    by = trained_by(Trainer(fresh(layer), TINY))
    assert by["RowAdam"] == {"embedding.assignment.rows.weight"}
    assert {"embedding.assignment.keys", "embedding.codec.codebook"} <= by["SGD"]


def test_a_penalty_is_trained_with():
    layer = KDEmbedding(len(CORPUS.words), TINY.hidden, codebook_size=4, code_length=4)
    model = fresh(layer)
    Trainer(model, TINY, penalty=lambda words: 0.1 * layer(words).square().sum()).train(CORPUS)
    free = fresh(KDEmbedding(len(CORPUS.words), TINY.hidden, codebook_size=4, code_length=4))
    Trainer(free, TINY).train(CORPUS)
    size, free_size = (float(each.embedding.eval().weight.detach().square().mean()) for each in (model, free))
    assert size < 0.5 * free_size


def test_the_first_weights_follow_the_seed():
    model, again, other = (fresh(coded_embedding("lstm")) for _ in range(3))
    start_weights(other, TINY, seed=1)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, again.get_parameter(name)), name
        assert not weight.any() or not torch.equal(weight, other.get_parameter(name)), name


def test_the_first_weights_are_uniform_and_vectors_equally_large_with_both_compositions():
    linear, lstm = fresh(coded_embedding("linear")), fresh(coded_embedding("lstm"))
    for name, weight in linear.named_parameters():
        assert 0.8 * TINY.spread < float(weight.detach().abs().max()) <= TINY.spread, name
    expected = float(linear.embedding.weight.detach().std())
    assert float(lstm.embedding.weight.detach().std()) == pytest.approx(expected, rel=0.25)


def test_the_table_of_a_trained_model_is_read_from_its_checkpoint(tmp_path):
    model = fresh()
    Trainer(model, replace(TINY, epochs=1), tmp_path / "run.pt").train(CORPUS)
    table = trained_table(tmp_path / "run.pt", CORPUS)
    assert torch.equal(torch.from_numpy(table.matrix), model.embedding.weight.detach())
    assert list(table.symbols) == CORPUS.words


@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_run_that_is_killed_within_an_epoch_ends_with_the_same_weights(tmp_path, monkeypatch, bfloat16):
    recipe = replace(TINY, epochs=2, dropout=0.3, bfloat16=bfloat16)
    monkeypatch.setattr(Trainer, "save_seconds", 0.0)
    whole = fresh(recipe=recipe)
    expected = Trainer(whole, recipe).train(CORPUS)

    class KilledError(Exception):
        pass

    def kill(run, done, of):
        if run.epoch == 1 and done == of // 2:
            raise KilledError

    checkpoint = tmp_path / "model.pt"
    with pytest.raises(KilledError):
        Trainer(fresh(recipe=recipe), recipe, checkpoint).train(CORPUS, kill)
    torch.manual_seed(99)  # another process draws otherwise
    model = fresh(recipe=recipe)
    steps = []
    found = Trainer(model, recipe, checkpoint).train(CORPUS, lambda run, done, of: steps.append((run.epoch, done)))
    assert steps[0][0] == 1
    assert steps[0][1] > 1  # it does not begin the epoch again
    for name, value in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert found.train_perplexity == expected.train_perplexity
    assert found.valid_perplexity == expected.valid_perplexity


def test_the_shortened_large_recipe_is_the_large_one_in_proportion():
    assert LARGE_SHORTENED.rate_factor(LARGE_SHORTENED.epochs - 1) == pytest.approx(LARGE.rate_factor(LARGE.epochs - 1))
    whole, short = (recipe.constant_epochs / recipe.epochs for recipe in (LARGE, LARGE_SHORTENED))
    assert short == pytest.approx(whole, abs=0.5 / LARGE_SHORTENED.epochs)
    assert replace(LARGE_SHORTENED, epochs=55, constant_epochs=14, decay=LARGE.decay, bfloat16=False) == LARGE
