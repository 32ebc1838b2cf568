"""CodedOutput against a product with the decoded table, for every kind of table."""

from __future__ import annotations

import copy
import io
import json
import pickle

import pytest
import safetensors.torch
import torch
from sample_tables import CODEWORD_KINDS, CODEWORD_NAMES, KINDS, NAMES, TRANSFORM_NAMES, coded_table
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from kdcode.errors import OptionError
from kdcode.nn import CodedEmbedding, CodedEmbeddingView, CodedOutput

ROWS, DIM = 20, 7
FORMS = [{}, {"form": "unpacked"}, {"trainable": True}, {"form": "unpacked", "trainable": True}]


class LanguageModel(nn.Module):
    """Ids to vectors to logits, with one table for both."""

    def __init__(self, coded, **arguments):
        super().__init__()
        self.embed = CodedEmbedding(coded, **arguments)
        self.body = nn.Linear(DIM, DIM)
        self.head = CodedOutput(self.embed, bias=True)

    def forward(self, ids):
        return self.head(torch.tanh(self.body(self.embed(ids))))


class LargestTensor(TorchDispatchMode):
    """Remembers how many numbers the largest float tensor had that any operator gave."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else [out]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                self.numbers = max(self.numbers, value.numel())
        return out


def hidden_vectors(*shape, seed=0, **settings):
    return torch.randn(*shape, DIM, generator=torch.Generator().manual_seed(seed)).to(**settings)


def assert_equal_to_rounding(found, expected):
    most = float(expected.detach().abs().max()) if expected.numel() else 0
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6 * most)


@pytest.mark.parametrize(
    ("kind", "dtype", "form"),
    [(*pair, form) for pair in KINDS for form in FORMS if pair in CODEWORD_KINDS or "trainable" not in form],
    ids=str,
)
def test_logits_are_those_of_the_decoded_table(kind, dtype, form):
    layer = CodedEmbedding(coded_table(kind, dtype, rows=ROWS), **form)
    hidden = hidden_vectors(2, 3)
    bias = torch.linspace(-1, 1, ROWS)
    for given in (None, bias):
        expected = F.linear(hidden, layer.weight, given)
        assert_equal_to_rounding(CodedOutput(layer, given)(hidden), expected)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 700])
def test_any_number_of_hidden_vectors_and_of_rows(kind, count):
    layer = CodedEmbedding(coded_table(kind, rows=8200))  # in two parts
    hidden = hidden_vectors(count)
    with torch.no_grad():
        found = CodedOutput(layer)(hidden)
    assert found.shape == (count, 8200)
    assert_equal_to_rounding(found, hidden @ layer.weight.t())


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("size", [3, 256, 300])
def test_codebooks_of_any_size(kind, size):
    layer = CodedEmbedding(coded_table(kind, rows=ROWS, size=size))
    hidden = hidden_vectors(4)
    assert_equal_to_rounding(CodedOutput(layer)(hidden), hidden @ layer.weight.t())


@pytest.mark.parametrize("kind", CODEWORD_NAMES)
@pytest.mark.parametrize("form", ["packed", "unpacked"])
def test_gradients_are_those_of_the_decoded_table(kind, form):
    coded, hidden = coded_table(kind, rows=8200), hidden_vectors(70)
    outcome = torch.randn(70, 8200, generator=torch.Generator().manual_seed(1))
    found, expected = [], []
    for grads, compute in (
        (found, lambda head, rows: head(rows)),
        (expected, lambda head, rows: F.linear(rows, head.table.weight, head.bias)),
    ):
        layer = CodedEmbedding(coded, 5, form=form, trainable=True)
        head, rows = CodedOutput(layer, bias=True), hidden.clone().requires_grad_()
        compute(head, rows).backward(outcome)
        grads += [rows.grad, head.bias.grad, *(value.grad for value in layer.parameters())]
    assert len(found) >= 3
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("form", ["packed", "unpacked"])
@pytest.mark.parametrize("kind", ["linear", "lstm", *TRANSFORM_NAMES])
def test_a_frozen_table_passes_gradients_to_hidden_vectors_alone(kind, form):
    layer = CodedEmbedding(coded_table(kind, rows=ROWS), form=form)
    hidden = hidden_vectors(3).requires_grad_()
    CodedOutput(layer)(hidden).square().sum().backward()
    reference = hidden.detach().clone().requires_grad_()
    (reference @ layer.weight.t()).square().sum().backward()
    torch.testing.assert_close(hidden.grad, reference.grad, rtol=1e-4, atol=1e-4)


def test_padding_has_logit_zero_and_its_bias():
    head = CodedOutput(CodedEmbedding(coded_table(rows=ROWS), padding_idx=3), bias=torch.full((ROWS,), 2.0))
    assert head(hidden_vectors(4))[:, 3].tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("kind", "trainable"), [*((name, False) for name in NAMES), *((name, True) for name in CODEWORD_NAMES)]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 0.01), (torch.bfloat16, 0.05), (torch.float64, 1e-6)])
def test_other_float_types(kind, dtype, tolerance, trainable):
    model = LanguageModel(coded_table(kind, rows=ROWS), trainable=trainable)
    hidden = hidden_vectors(5)
    expected = model.head(hidden)
    half = model.to(dtype)
    found = half.head(hidden.to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected.double(), rtol=tolerance, atol=3 * tolerance)
    half(torch.arange(ROWS)).float().logsumexp(-1).sum().backward()
    grads = {name: value.grad for name, value in half.named_parameters()}
    assert all(grad is not None and grad.dtype == dtype and grad.isfinite().all() for grad in grads.values())


def test_autocast_gives_its_type_and_the_sums_of_float32():
    head = CodedOutput(CodedEmbedding(coded_table(rows=ROWS)))
    hidden = hidden_vectors(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head(hidden)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, head(hidden).bfloat16())


@pytest.mark.parametrize("kind", ["scaled-rotated"])
def test_it_compiles_with_gradients(kind):
    torch.manual_seed(0)
    model = LanguageModel(coded_table(kind, rows=ROWS), trainable=True)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    ids = torch.tensor([[1, 2, 2], [19, 0, 4]])
    torch.testing.assert_close(compiled(ids), model(ids))
    compiled(ids).square().sum().backward()
    found = {name: value.grad.clone() for name, value in model.named_parameters()}
    model.zero_grad()
    model(ids).square().sum().backward()
    for name, value in model.named_parameters():
        torch.testing.assert_close(found[name], value.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [name for name in CODEWORD_NAMES if not name.endswith("lstm")])
def test_neither_pass_forms_the_table(kind):
    rows, dim = 40_000, 64
    layer = CodedEmbedding(coded_table(kind, rows=rows, dim=dim, length=8, size=16))
    head, hidden = CodedOutput(layer), torch.randn(2, dim, requires_grad=True)
    with LargestTensor() as largest:
        head(hidden).logsumexp(-1).sum().backward()
    assert 2 * rows <= largest.numbers < rows * dim / 2


def test_a_tied_output_has_nothing_of_its_own():
    model = LanguageModel(coded_table(rows=ROWS))
    assert model.head.is_tied
    assert list(model.head.state_dict()) == ["bias"]
    assert [name for name, _ in model.named_modules()] == ["", "embed", "embed.codec", "body", "head"]
    other = CodedOutput(coded_table(rows=ROWS))
    assert not other.is_tied
    assert {name.split(".")[0] for name in other.state_dict()} == {"table"}


def test_copies_and_pickles_keep_the_tie():
    model = LanguageModel(coded_table(rows=ROWS), trainable=True)
    ids, stream = torch.arange(ROWS), io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    unpickled = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    for other in (copy.deepcopy(model), unpickled, torch.load(stream, weights_only=False)):
        assert other.head.table is other.embed
        assert other.embed is not model.embed
        assert torch.equal(other(ids), model(ids))


def test_a_model_is_stored_once_by_safetensors(tmp_path):
    coded = coded_table(rows=ROWS)
    model, other = LanguageModel(coded), LanguageModel(coded_table(rows=ROWS, seed=3))
    safetensors.torch.save_model(model, tmp_path / "model.safetensors")
    names = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert set(names) == set(model.state_dict())
    assert not [name for name in names if name.startswith("head.") and name != "head.bias"]
    safetensors.torch.load_model(other, tmp_path / "model.safetensors")
    ids = torch.arange(ROWS)
    assert torch.equal(other(ids), model(ids))


@pytest.mark.parametrize("kind", NAMES)
def test_it_is_built_from_its_configuration(kind):
    coded = coded_table(kind, rows=ROWS)
    own = CodedOutput(coded, bias=torch.ones(ROWS), form="unpacked", dtype=torch.float64)
    other = CodedOutput.from_config(json.loads(json.dumps(own.config)))
    other.load_state_dict(own.state_dict())
    hidden = hidden_vectors(3, dtype=torch.float64)
    assert torch.equal(other(hidden), own(hidden))
    layer = CodedEmbedding(coded)
    tied = CodedOutput.from_config(json.loads(json.dumps(CodedOutput(layer).config)), layer)
    assert tied.is_tied
    with pytest.raises(OptionError, match="tied"):
        CodedOutput.from_config(own.config, layer)
    with pytest.raises(OptionError, match="tied"):
        CodedOutput.from_config(tied.config)


def test_codewords_of_a_tied_model_learn_from_both_sides():
    model = LanguageModel(coded_table(rows=ROWS, size=8, length=8), trainable=True)
    ids = torch.arange(ROWS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        loss = F.cross_entropy(model(ids), ids.roll(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 4


def test_what_does_not_fit_is_refused():
    layer = CodedEmbedding(coded_table(rows=ROWS))
    with pytest.raises(OptionError, match=r"hidden: expected \(…, 7\) on cpu, got \(2, 8\)"):
        CodedOutput(layer)(torch.zeros(2, 8))
    with pytest.raises(OptionError, match=r"on meta"):
        CodedOutput(layer)(torch.zeros(2, DIM, device="meta"))
    with pytest.raises(OptionError, match=r"bias: expected a tensor of shape \(20,\)"):
        CodedOutput(layer, torch.zeros(7))
    with pytest.raises(OptionError, match="form"):
        CodedOutput(layer, form="packed")
    with pytest.raises(OptionError, match="tied"):
        CodedOutput(coded_table(rows=ROWS), tied=True)


def test_it_prints_its_shape():
    head = CodedOutput(CodedEmbedding(coded_table(rows=ROWS)))
    assert repr(head) == "CodedOutput(in_features=7, out_features=20, bias=False, tied=True)"


def test_a_view_gives_the_vectors_of_another_layer_times_a_scale():
    layer = CodedEmbedding(coded_table(rows=ROWS), padding_idx=2)
    view, ids = CodedEmbeddingView(layer, 3.0), torch.tensor([[1, 2], [19, 1]])
    torch.testing.assert_close(view(ids), 3 * layer(ids))
    assert torch.equal(view.weight, layer.weight)
    assert (view.num_embeddings, view.embedding_dim, view.padding_idx) == (ROWS, DIM, 2)
    assert not view.state_dict()
    assert torch.equal(CodedEmbeddingView.from_config(json.loads(json.dumps(view.config)), layer)(ids), view(ids))
    own = CodedEmbeddingView(layer, 3.0, tied=False)
    other = CodedEmbeddingView.from_config(json.loads(json.dumps(own.config)))
    other.load_state_dict(own.state_dict())
    assert torch.equal(other(ids), view(ids))
