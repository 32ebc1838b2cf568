"""Calibration: the model is watched on some inputs, and codes of its output layer keep its logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import kdcode
from kdcode.errors import OptionError
from kdcode.learning.model_calibration import Observed, fitted_to_states, taken_back
from kdcode.nn import CodedOutput, compress_embeddings
from kdcode.table import VectorTable

ROWS, DIM = 400, 16
CODES = {"codebook_size": 8, "code_length": 4, "effort": "fast", "min_rows": 50}
ROTATED = {**CODES, "composition": "product", "rotation": True}


class LanguageModel(nn.Module):
    """Words in, logits out; states lie almost in one direction."""

    def __init__(self, tie=True):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(ROWS, DIM)
        self.body = nn.Linear(DIM, DIM)
        self.head = nn.Linear(DIM, ROWS, bias=False)
        self.dropout = nn.Dropout(0.5)
        with torch.no_grad():
            self.body.bias[:] = 5 * torch.randn(DIM)
        if tie:
            self.head.weight = self.words.weight

    def forward(self, ids, *, shift=0.0):
        return self.head(self.dropout(self.body(self.words(ids)))) + shift


def batches(count=6):
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(0, 100, (4, 10), generator=draw) for _ in range(count)]


def logits_error(keywords, tie=True, **more):
    """Mean squared error of logits of other inputs, less what is the same for all rows."""
    model, ids = LanguageModel(tie).eval(), torch.randint(0, 100, (50, 10), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        before = model(ids)
        report = compress_embeddings(model, **keywords, **more)
        return float((model(ids) - before).square().mean()), model, report


@pytest.mark.parametrize(
    "shape", [ROTATED, {**CODES, "composition": "linear"}, {"bits": 12, "effort": "fast", "min_rows": 50}]
)
def test_logits_are_kept_better(shape):
    plain, _, _ = logits_error(shape)
    better, model, report = logits_error(shape, calibrate=batches())
    assert better < 0.6 * plain
    assert isinstance(model.head, CodedOutput)
    assert "calibrated" in str(report)
    assert report.layers[0].coded.provenance["calibrated"]


def test_the_error_in_the_report_is_that_of_the_vectors():
    _, _, report = logits_error(ROTATED, calibrate=batches(), weights=np.ones(ROWS))
    coded = report.layers[0].coded
    table = LanguageModel().words.weight.detach().numpy()
    error = np.square(coded.to_table().matrix - table).sum() / np.square(table - table.mean(axis=0)).sum()
    assert coded.provenance["relative_error"] == pytest.approx(error, rel=1e-3)


def test_rows_count_by_how_often_they_are_used():
    _, _, report = logits_error(ROTATED, calibrate=batches(60), heads="full")
    coded = report.layers[0].coded
    assert "calibrated" not in coded.provenance  # no output layer reads the codes
    table = LanguageModel().words.weight.detach().numpy()
    errors = np.square(coded.to_table().matrix - table).sum(axis=1)
    assert errors[:100].mean() < 0.8 * errors[100:].mean()


def test_weights_that_are_given_go_before_those_of_the_batches():
    weights = np.where(np.arange(ROWS) >= 300, 50.0, 1.0)
    _, _, report = logits_error(ROTATED, calibrate=batches(), weights=weights)
    table = LanguageModel().words.weight.detach().numpy()
    errors = np.square(report.layers[0].coded.to_table().matrix - table).sum(axis=1)
    assert errors[300:].mean() < 0.8 * errors[:100].mean()


def test_an_output_layer_of_its_own_counts_by_probabilities():
    plain, _, _ = logits_error(ROTATED, tie=False, only=["head"])
    better, model, _ = logits_error(ROTATED, tie=False, only=["head"], calibrate=batches())
    assert isinstance(model.words, nn.Embedding)
    assert better < plain


@pytest.mark.parametrize("form", ["tensor", "dict", "arguments"])
def test_forms_of_batches(form):
    calls = {"tensor": lambda ids: ids, "dict": lambda ids: {"ids": ids, "shift": 1.0}, "arguments": lambda ids: (ids,)}
    _, model, report = logits_error(ROTATED, calibrate=[calls[form](ids) for ids in batches()])
    _, _, other = logits_error(ROTATED, calibrate=batches())
    assert np.array_equal(report.layers[0].coded.codes, other.layers[0].coded.codes)
    assert not model.training


def test_the_model_is_left_as_it_was_but_for_its_embeddings():
    model = LanguageModel().train()
    model.body.eval()
    compress_embeddings(model, **ROTATED, calibrate=batches())
    assert model.training
    assert model.dropout.training
    assert not model.body.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("calibrate", "options", "message"),
    [
        ([], ROTATED, "got none"),
        (batches(), {**CODES, "composition": "product"}, "rotation=True"),
        (batches(), {"max_error": 0.5, "effort": "fast", "min_rows": 50}, "size or bits"),
    ],
)
def test_what_cannot_work_is_refused_and_the_model_stays(calibrate, options, message):
    model = LanguageModel()
    with pytest.raises(OptionError, match=message):
        compress_embeddings(model, **options, calibrate=calibrate)
    assert type(model.words) is nn.Embedding
    assert not model.words._forward_hooks


def test_a_layer_that_no_batch_comes_to_is_refused():
    model = LanguageModel()
    model.other = nn.Embedding(ROWS, DIM)
    with pytest.raises(OptionError, match=r"other was not used in any of 6 batches"):
        compress_embeddings(model, **ROTATED, calibrate=batches())


def test_a_failing_batch_leaves_no_hooks():
    model = LanguageModel()
    with pytest.raises(IndexError):
        compress_embeddings(model, **ROTATED, calibrate=[torch.tensor([ROWS])])
    assert not model.words._forward_hooks
    assert type(model.words) is nn.Embedding


def test_the_root_has_the_moment_of_states_and_of_plain_errors():
    states = torch.randn(500, DIM, dtype=torch.float64) * torch.linspace(0.1, 3, DIM)
    observed = Observed(torch.ones(ROWS), states.T @ states, 500)
    root = observed.root.double()
    moment = states.T @ states
    torch.testing.assert_close(root @ root.T, moment * DIM / moment.trace() + torch.eye(DIM), rtol=1e-4, atol=1e-4)
    assert Observed(torch.ones(ROWS), torch.zeros(DIM, DIM)).root is None


@pytest.mark.parametrize(
    "shape", [{"composition": "grouped", "groups": 2, "rotation": True}, {"composition": "product", "rotation": True}]
)
def test_a_calibrated_table_encodes_its_own_vectors_as_their_codes(shape):
    rng = np.random.default_rng(0)
    table = VectorTable(None, rng.normal(size=(300, DIM)).astype("float32"))
    root = torch.linalg.cholesky(torch.eye(DIM) + 20 * torch.ones(DIM, DIM))
    learned = kdcode.compress(fitted_to_states(table, root), codebook_size=8, code_length=4, effort="fast", **shape)
    coded = taken_back(learned, root, table)
    np.testing.assert_allclose(coded.to_table().matrix @ root.numpy(), learned.to_table().matrix, rtol=0, atol=0.02)
    vectors = coded.to_table().matrix
    np.testing.assert_allclose(coded.compose(coded.encode(vectors)), vectors, rtol=0, atol=1e-4)
    found = coded.codec.encode(vectors)
    np.testing.assert_allclose(coded.compose(found), vectors, rtol=0, atol=1e-4)
