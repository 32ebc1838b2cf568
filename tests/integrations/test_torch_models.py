"""compress_embeddings on plain torch modules: what is replaced, what is kept, and what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.errors import OptionError, TableError
from kdcode.nn import (
    CodedEmbedding,
    CodedEmbeddingBag,
    CodedEmbeddingView,
    CodedOutput,
    KDEmbedding,
    compress_embeddings,
    freeze_embeddings,
)

ROWS, DIM = 120, 8
SMALL = {"codebook_size": 4, "code_length": 4, "composition": "product", "effort": "fast", "min_rows": 50}
"""Codes that are learned in no time."""


class LanguageModel(nn.Module):
    """Words and positions in, logits out."""

    def __init__(self, tie=True, bias=True, dtype=None):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(ROWS, DIM, dtype=dtype)
        self.positions = nn.Embedding(10, DIM, dtype=dtype)
        self.body = nn.Linear(DIM, DIM, dtype=dtype)
        self.head = nn.Linear(DIM, ROWS, bias=bias, dtype=dtype)
        if tie:
            self.head.weight = self.words.weight

    def forward(self, ids):
        vectors = self.words(ids) + self.positions(torch.arange(ids.shape[-1]))
        return self.head(torch.tanh(self.body(vectors)))


class Holder(nn.Module):
    """Any layers, by name."""

    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)


class ScaledEmbedding(nn.Embedding):
    def __init__(self, *args, embed_scale):
        super().__init__(*args)
        self.embed_scale = embed_scale

    def forward(self, ids):
        return super().forward(ids) * self.embed_scale


class ShiftedEmbedding(nn.Embedding):
    embed_scale = 1.0

    def forward(self, ids):
        return super().forward((ids + 1) % ROWS)


IDS = torch.tensor([[3, 3, 0], [119, 7, 5]])


def state_of(model):
    return {name: (value.data_ptr(), value.shape) for name, value in model.state_dict().items()}


def modules_of(model):
    return {name: id(module) for name, module in model.named_modules(remove_duplicate=False)}


def test_it_is_reachable_by_three_names_and_says_its_keywords():
    from kdcode.integrations.torch_models import compress_embeddings as home

    assert home is kdcode.compress_embeddings is kdcode.nn.compress_embeddings
    assert "compress_embeddings" in dir(kdcode)
    assert "effort" in (home.__doc__ or "")


def test_a_tied_model_keeps_one_table_of_codes_for_both_ends():
    model = LanguageModel()
    decoded = copy.deepcopy(model)
    report = compress_embeddings(model, **SMALL)
    assert isinstance(model.words, CodedEmbedding)
    assert isinstance(model.head, CodedOutput)
    assert model.head.table is model.words
    assert isinstance(model.positions, nn.Embedding)
    with torch.no_grad():
        decoded.words.weight.copy_(model.words.weight)
    torch.testing.assert_close(model(IDS), decoded(IDS), rtol=1e-5, atol=1e-5)
    assert not [name for name in model.state_dict() if name.startswith("head.") and name != "head.bias"]
    words, head = report.layers[:2]
    assert (words.name, words.before, words.after) == ("words", 4 * ROWS * DIM, model.words.nbytes)
    assert (head.name, head.before, head.after, head.what) == ("head", 0, 0, "tied to words")
    assert report.model_before - report.model_after == words.before - words.after
    assert words.coded.provenance["relative_error"] < 1
    assert report.layers[2].what == "kept: 10 rows, fewer than 50"


def test_the_report_prints_bytes_before_and_after():
    report = compress_embeddings(LanguageModel(), **SMALL)
    lines = str(report).splitlines()
    assert lines[0].split() == ["layer", "rows", "x", "size", "bytes", "before", "bytes", "after", "smaller"]
    assert lines[1].split()[:7] == ["words", "120", "x", "8", "3,840", "200", "19.2x"]
    assert lines[1].endswith(
        f"K=4, D=4, product, relative error {report.layers[0].coded.provenance['relative_error']:.4f}"
    )
    assert lines[-1].startswith("whole model")
    as_dict = report.as_dict()
    assert as_dict["layers"][0]["relative_error"] == report.layers[0].coded.provenance["relative_error"]
    assert as_dict["model_after"] == report.model_after


def test_the_size_is_kept():
    model = Holder(words=nn.Embedding(6000, 16), few=nn.Embedding(500, 16))
    torch.manual_seed(0)
    report = compress_embeddings(model, "10x", effort="fast")
    assert report.layers[0].before / report.layers[0].after >= 10
    assert report.layers[0].after > report.layers[0].before / 13
    assert report.layers[1].what == "kept: 500 rows, fewer than 5,000"
    assert model.words.nbytes == report.layers[0].coded.sizes.embedding


def test_twenty_times_is_the_default():
    model = Holder(words=nn.Embedding(6000, 16))
    report = compress_embeddings(model, effort="fast")
    assert 20 <= report.layers[0].before / report.layers[0].after < 26


def test_a_tied_head_may_keep_the_full_matrix():
    model = LanguageModel()
    matrix = model.head.weight
    report = compress_embeddings(model, heads="full", **SMALL)
    assert isinstance(model.words, CodedEmbedding)
    assert model.head.weight is matrix
    assert report.layers[1].what == "keeps the full matrix"
    assert report.layers[1].after == 4 * ROWS * DIM
    assert report.model_after - report.model_before == model.words.nbytes


def test_the_head_alone():
    model = LanguageModel()
    matrix, bias = model.words.weight, model.head.bias
    report = compress_embeddings(model, only="head", **SMALL)
    assert model.words.weight is matrix
    assert isinstance(model.head, CodedOutput)
    assert not model.head.is_tied
    assert model.head.bias is bias
    expected = F.linear(torch.ones(DIM), model.head.table.weight, bias)
    torch.testing.assert_close(model.head(torch.ones(DIM)), expected)
    assert report.layers[0].what.endswith("words keeps its matrix")
    assert report.model_after - report.model_before == model.head.table.nbytes


def test_untied_heads_on_request():
    model = LanguageModel(tie=False)
    head = model.head
    report = compress_embeddings(model, **SMALL)
    assert model.head is head
    assert (report.layers[2].name, report.layers[2].before, report.layers[2].after) == ("head", 3840, 3840)
    assert report.layers[2].what == "kept: an output layer with a matrix of its own"
    model = LanguageModel(tie=False)
    report = compress_embeddings(model, heads="all", **SMALL)
    assert isinstance(model.head, CodedOutput)
    assert not model.head.is_tied
    assert [layer.name for layer in report.layers] == ["words", "positions", "head"]
    assert report.layers[2].before == 4 * ROWS * DIM
    assert isinstance(model.body, nn.Linear)


def test_bags_keep_their_mode_and_padding():
    for mode in ("sum", "mean", "max"):
        torch.manual_seed(0)
        bag = nn.EmbeddingBag(ROWS, DIM, mode=mode, padding_idx=3, include_last_offset=True)
        model = Holder(bag=bag)
        compress_embeddings(model, **SMALL)
        assert isinstance(model.bag, CodedEmbeddingBag)
        with torch.no_grad():
            bag.weight.copy_(model.bag.weight)
        ids, offsets = torch.tensor([3, 5, 7, 3, 9]), torch.tensor([0, 3, 5])
        torch.testing.assert_close(model.bag(ids, offsets), bag(ids, offsets))


@pytest.mark.parametrize("fill", [0.0, 1.5])
def test_the_padding_row_is_zero_only_where_it_was(fill):
    model = Holder(words=nn.Embedding(ROWS, DIM, padding_idx=4))
    with torch.no_grad():
        model.words.weight[4] = fill
    compress_embeddings(model, **SMALL)
    vector = model.words(torch.tensor([4]))
    assert bool(vector.any()) == bool(fill)
    assert model.words.padding_idx == (4 if fill == 0 else None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_type_and_mode_of_a_layer_stay(dtype):
    model = LanguageModel(dtype=dtype).eval()
    report = compress_embeddings(model, **SMALL)
    assert model(IDS).dtype == dtype
    assert not model.words.training
    assert report.layers[0].before == ROWS * DIM * dtype.itemsize


def test_one_layer_in_two_places_stays_one_layer():
    layer = nn.Embedding(ROWS, DIM)
    model = Holder(first=layer, second=nn.Sequential(nn.Identity(), layer))
    report = compress_embeddings(model, **SMALL)
    assert isinstance(model.first, CodedEmbedding)
    assert model.second[1] is model.first
    assert len(report.layers) == 1


def test_two_layers_with_one_matrix_share_codes():
    model = Holder(encoder=nn.Embedding(ROWS, DIM), decoder=nn.Embedding(ROWS, DIM))
    model.decoder.weight = model.encoder.weight
    report = compress_embeddings(model, **SMALL)
    assert isinstance(model.decoder, CodedEmbeddingView)
    assert torch.equal(model.decoder(IDS), model.encoder(IDS))
    assert not [name for name in model.state_dict() if name.startswith("decoder")]
    assert report.layers[1].what == "tied to encoder"


@pytest.mark.parametrize("scale", [3.0, torch.tensor(3.0)])
def test_scaled_embeddings_keep_their_scale(scale):
    model = Holder(words=ScaledEmbedding(ROWS, DIM, embed_scale=scale), head=nn.Linear(DIM, ROWS, bias=False))
    model.head.weight = model.words.weight
    compress_embeddings(model, **SMALL)
    assert isinstance(model.words, CodedEmbeddingView)
    torch.testing.assert_close(model.words(IDS), 3 * model.words.table(IDS))
    hidden = torch.ones(2, DIM)
    torch.testing.assert_close(model.head(hidden), hidden @ model.words.weight.t())
    assert {name.split(".")[0] for name in model.state_dict()} == {"words"}


def hooked():
    layer = nn.Embedding(ROWS, DIM)
    layer.register_forward_hook(lambda *_: None)
    return layer


def with_another_use():
    model = Holder(words=nn.Embedding(ROWS, DIM))
    model.output_matrix = model.words.weight
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Holder(words=ShiftedEmbedding(ROWS, DIM)), "ShiftedEmbedding computes something else than nn.Embedding"),
        (Holder(words=hooked()), "words has hooks, which would be lost"),
        (with_another_use(), "its matrix is also the parameter output_matrix, which needs it"),
        (Holder(words=nn.Embedding(49, DIM)), "49 rows, fewer than 50"),
        (Holder(position_embeddings=nn.Embedding(ROWS, DIM)), "a table of positions, by its name"),
        (Holder(words=nn.Embedding(51, DIM)), "its codes would take 1"),
    ],
)
def test_what_cannot_be_replaced_is_kept_and_said(model, reason):
    options = SMALL if "would take" not in reason else {**SMALL, "codebook_size": 51, "codebook_dtype": "float32"}
    before = modules_of(model)
    with pytest.raises(OptionError, match=r"nothing was replaced: .*only=") as refused:
        compress_embeddings(model, **options)
    assert reason in str(refused.value)
    assert modules_of(model) == before
    model.other = nn.Embedding(ROWS, DIM)
    report = compress_embeddings(model, **options)
    assert any(layer.what.startswith(f"kept: {reason}") for layer in report.layers)


def test_a_model_without_embeddings_is_refused():
    with pytest.raises(OptionError, match=r"there is no nn\.Embedding or nn\.EmbeddingBag in it"):
        compress_embeddings(nn.Sequential(nn.Linear(2, 2)))


def test_an_embedding_itself_is_refused():
    with pytest.raises(OptionError, match=r"CodedEmbedding\(kdcode\.compress"):
        compress_embeddings(nn.Embedding(ROWS, DIM))


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ("words", {"words"}),
        (["words", "tags"], {"words", "tags"}),
        ("w*", {"words", "wide.0"}),
        (["wide.*", "tags"], {"wide.0", "tags"}),
        (lambda name, layer: layer.num_embeddings > ROWS, {"wide.0"}),
    ],
)
def test_only_some_layers(only, chosen):
    model = Holder(
        words=nn.Embedding(ROWS, DIM), tags=nn.Embedding(40, DIM), wide=nn.Sequential(nn.Embedding(ROWS + 1, DIM))
    )
    compress_embeddings(model, only=only, **SMALL)
    assert {name for name, layer in model.named_modules() if isinstance(layer, CodedEmbedding)} == chosen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "20y"}, "size must be like 20x"),
        ({"size": 20}, "size must have a unit"),
        ({"only": "wrods"}, "only: no embedding or output layer is called 'wrods'; those of the model are: words, "),
        ({"only": ["words", "x*"]}, r"only: .*'x\*'"),
        ({"only": [3]}, "only: expected names"),
        ({"heads": "none"}, "heads must be one of tied, full, all"),
        ({"effort": "hard"}, "effort"),
        ({"colour": 3}, "there is no option 'colour'"),
        ({"size": "20x", "code_length": 3}, "code_length is chosen for size='20x'"),
        ({"size": "500B", "only": ["words", "positions"]}, "size: 500B is for one table, and 2 are to be replaced"),
        ({"weights": {"wrods": [1.0]}}, "weights: 'wrods' is none of the layers"),
        ({"weights": np.ones(ROWS), "only": ["words", "positions"]}, "weights: expected a dict by layer"),
        ({"code_length": 9, "composition": "product"}, "code_length: a product code of length 9"),
        ({"device": "nowhere"}, "nowhere"),
    ],
)
def test_a_bad_request_is_refused_before_any_work(arguments, message, monkeypatch):
    monkeypatch.setattr("kdcode.learning.model_compression.compress", lambda *_, **__: pytest.fail("work was done"))
    model = LanguageModel()
    before = modules_of(model), state_of(model)
    with pytest.raises(OptionError, match=message):
        compress_embeddings(model, min_rows=50, **arguments)
    assert (modules_of(model), state_of(model)) == before


def test_weights_of_another_length_and_bad_numbers_name_the_layer():
    with pytest.raises(TableError, match="words: weights: expected one number for each of 120 rows"):
        compress_embeddings(LanguageModel(), weights=np.ones(3), **SMALL)
    model = LanguageModel()
    with torch.no_grad():
        model.words.weight[5, 5] = float("nan")
    with pytest.raises(TableError, match="words: "):
        compress_embeddings(model, **SMALL)


def test_max_norm_is_refused():
    model = Holder(words=nn.Embedding(ROWS, DIM, max_norm=1.0), tags=nn.Embedding(ROWS, DIM))
    with pytest.raises(OptionError, match=r"words: max_norm=1\.0 changes rows"):
        compress_embeddings(model, **SMALL)
    compress_embeddings(model, only="tags", **SMALL)
    assert isinstance(model.tags, CodedEmbedding)


def test_a_failure_midway_leaves_the_model_as_it_was(monkeypatch):
    model = Holder(first=nn.Embedding(ROWS, DIM), second=nn.Embedding(ROWS, DIM))
    before, calls, real = modules_of(model), [], kdcode.compress

    def second_fails(table, **keywords):
        calls.append(table)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(table, **keywords)

    monkeypatch.setattr("kdcode.learning.model_compression.compress", second_fails)
    with pytest.raises(KeyboardInterrupt):
        compress_embeddings(model, **SMALL)
    assert modules_of(model) == before
    assert len(calls) == 2


def test_weights_of_rows_count():
    torch.manual_seed(0)
    words = nn.Embedding(ROWS, DIM)
    weights = np.where(np.arange(ROWS) < 10, 1000.0, 1e-3)
    errors = []
    for given in (None, weights, {"words": weights}):
        model = Holder(words=copy.deepcopy(words))
        compress_embeddings(model, weights=given, **SMALL)
        errors.append(float((model.words.weight - words.weight)[:10].square().sum().detach()))
    assert errors[1] == errors[2] < errors[0] / 2


def test_a_named_layer_that_cannot_become_small_enough_is_refused():
    model = Holder(words=nn.Embedding(ROWS, DIM), tags=nn.Embedding(4, DIM))
    with pytest.raises(OptionError, match="tags: "):
        compress_embeddings(model, "20x", only="tags", effort="fast")


def test_a_named_layer_that_cannot_be_replaced_is_refused():
    model = Holder(words=nn.Embedding(ROWS, DIM), shifted=ShiftedEmbedding(ROWS, DIM))
    with pytest.raises(OptionError, match="shifted: cannot be compressed: ShiftedEmbedding computes something else"):
        compress_embeddings(model, only=["words", "shifted"], **SMALL)
    assert isinstance(model.words, nn.Embedding)


def test_codewords_can_be_trained_with_the_model():
    model = LanguageModel()
    compress_embeddings(model, trainable=True, **SMALL)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    codes, losses = model.words.codes, []
    for _ in range(40):
        loss = F.cross_entropy(model(IDS).flatten(0, 1), IDS.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
    assert torch.equal(model.words.codes, codes)


def test_progress_names_the_layers(capsys):
    compress_embeddings(LanguageModel(), progress=True, **SMALL)
    assert "words, 120 x 8" in capsys.readouterr().err


def test_each_layer_has_its_checkpoint(tmp_path):
    model = Holder(first=nn.Embedding(ROWS, DIM), second=nn.Embedding(ROWS, DIM))
    options = {**SMALL, "effort": "normal", "composition": "linear"}
    compress_embeddings(model, checkpoint=tmp_path / "run", **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.first", "run.second"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_trained_codewords_are_frozen_into_the_promised_bytes(dtype):
    model = LanguageModel(dtype=dtype).eval()
    report = compress_embeddings(model, trainable=True, **SMALL)
    with torch.no_grad():
        for value in model.words.parameters():
            value.mul_(1.5)
    codes, before = model.words.codes, model(IDS)
    freeze_embeddings(model)
    assert model.words.nbytes == report.layers[0].coded.sizes.embedding
    assert model.head.table is model.words
    assert torch.equal(model.words.codes, codes)
    assert not list(model.words.parameters())
    assert not model.words.training
    torch.testing.assert_close(model(IDS), before, rtol=0.02, atol=0.02)
    with pytest.raises(OptionError, match="no KDEmbedding and no layer with trainable codewords"):
        freeze_embeddings(model)


def test_every_trained_layer_is_frozen_with_its_ties():
    layer = nn.Embedding(ROWS, DIM)
    model = Holder(
        bag=nn.EmbeddingBag(ROWS, DIM, mode="max"),
        scaled=ScaledEmbedding(ROWS, DIM, embed_scale=2.0),
        again=nn.Embedding(ROWS, DIM),
        first=layer,
        second=layer,
    )
    model.again.weight = model.scaled.weight
    compress_embeddings(model, trainable=True, **SMALL)
    model.learned = KDEmbedding(ROWS, DIM)
    model.eval()
    ids = torch.tensor([[1, 2], [3, 119]])
    before = {name: getattr(model, name)(ids) for name in ("bag", "scaled", "again", "first", "learned")}
    freeze_embeddings(model)
    assert model.second is model.first
    assert model.again.table is model.scaled.table
    assert model.bag.mode == "max"
    assert isinstance(model.learned, CodedEmbedding)
    assert not [name for name, value in model.named_parameters() if value.requires_grad]
    for name, vectors in before.items():
        torch.testing.assert_close(getattr(model, name)(ids), vectors, rtol=1e-2, atol=1e-2)


def test_a_layer_itself_cannot_be_frozen_in_place():
    with pytest.raises(OptionError, match="got KDEmbedding itself"):
        freeze_embeddings(KDEmbedding(ROWS, DIM))


TRANSFORM = {"composition": "transform", "row_bytes": 12.0, "min_rows": 50}


def tied_model(rows=2000):
    torch.manual_seed(0)
    model = Holder(words=nn.Embedding(rows, DIM), head=nn.Linear(DIM, rows, bias=False)).eval()
    model.head.weight = model.words.weight
    return model


def test_transform_codes_serve_embeddings_and_heads():
    model, plain = tied_model(), tied_model()
    report = compress_embeddings(model, **TRANSFORM)
    assert isinstance(model.words, CodedEmbedding)
    assert isinstance(model.head, CodedOutput)
    assert model.words.nbytes == report.layers[0].after == report.layers[0].coded.sizes.embedding
    assert "transform, " in report.layers[0].what
    ids, hidden = torch.arange(0, 2000, 7).view(2, -1), torch.randn(5, DIM, requires_grad=True)
    lost = F.mse_loss(model.words(ids), plain.words(ids)), F.mse_loss(model.head(hidden), plain.head(hidden))
    assert 0 < max(lost) < 0.2
    lost[1].backward()
    assert hidden.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"trainable": True}, "trainable: transform codes have no codewords to train; give another composition, or a"),
        ({"calibrate": [torch.zeros(2, 3).long()]}, "calibrate: transform codes cannot be fitted to states; give anot"),
    ],
)
def test_transform_codes_are_neither_trained_nor_calibrated(asked, said):
    model = LanguageModel()
    with pytest.raises(OptionError, match=said):
        compress_embeddings(model, **TRANSFORM, **asked)
    assert isinstance(model.words, nn.Embedding)


@pytest.mark.parametrize("asked", [{"trainable": True}, {"calibrate": [torch.arange(60).view(6, 10)]}])
def test_a_size_has_codewords_where_they_are_needed(asked):
    torch.manual_seed(0)
    model = LanguageModel()
    model.words, model.positions = nn.Embedding(2000, 32), nn.Embedding(10, 32)
    model.body, model.head = nn.Linear(32, 32), nn.Linear(32, 2000)
    model.head.weight = model.words.weight
    without = compress_embeddings(copy.deepcopy(model), "6x", effort="fast", min_rows=50).layers[0].coded
    assert without.codewords is None  # else this says nothing
    compress_embeddings(model, "6x", effort="fast", min_rows=50, **asked)
    assert isinstance(model.words.codec.spec, CodewordSpec)
