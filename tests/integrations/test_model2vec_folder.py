"""model2vec folders made by model2vec itself, compressed, and loaded as a StaticModel again."""

import json
import shutil
import sys

import numpy as np
import pytest
from model2vec import StaticModel
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import kdcode
from kdcode import CodedTable
from kdcode.errors import FileError, FormatError, KdcodeError, MissingExtraError, MissingFileError, OptionError
from kdcode.integrations.model2vec_folder import compress_folder, is_model2vec, load

ROWS = 1500
WORDS = list(kdcode.data.glove_50d().symbols[: ROWS - 2])
VECTORS = np.concatenate([np.zeros((2, 50), dtype=np.float32), kdcode.data.glove_50d().matrix[: ROWS - 2]])
SENTENCES = [" ".join(WORDS[start : start + 4 + start % 7]) for start in range(20, 1400, 23)] + ["", "zzzz qqqq", "the"]
SMALL = {"codebook_size": 16, "code_length": 25, "composition": "product", "effort": "fast"}


def tokenizer():
    vocabulary = {token: row for row, token in enumerate(["[PAD]", "[UNK]", *WORDS])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def plain(folder):
    StaticModel(VECTORS, tokenizer(), config={"model_type": "model2vec"}, normalize=True).save_pretrained(folder)


def shared_rows(folder):
    """A model with a quantised vocabulary: fewer rows than tokens, and a weight for each token."""
    random = np.random.default_rng(0)
    mapping, weights = random.integers(0, 400, ROWS), random.uniform(0.1, 2, ROWS)
    StaticModel(VECTORS[2:402], tokenizer(), weights=weights, token_mapping=mapping, max_length=9).save_pretrained(
        folder
    )


def weighted(folder):
    weights = np.random.default_rng(0).uniform(0.1, 2, ROWS).astype(np.float16)
    StaticModel(VECTORS, tokenizer(), weights=weights, max_length=None).save_pretrained(folder)


def half(folder):
    StaticModel(VECTORS.astype(np.float16), tokenizer()).save_pretrained(folder)


def bytes_(folder):
    scaled = np.round(VECTORS / np.abs(VECTORS).max() * 127).astype(np.int8)
    StaticModel(scaled, tokenizer(), normalize=True).save_pretrained(folder)


def sentence_transformers(folder, inner=""):
    (folder / inner).mkdir(parents=True)
    save_file({"embedding.weight": VECTORS}, folder / inner / "model.safetensors")
    tokenizer().save(str(folder / inner / "tokenizer.json"))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {}}))


def nested(folder):
    sentence_transformers(folder, "0_StaticEmbedding")


MAKERS = (plain, shared_rows, weighted, half, bytes_, sentence_transformers, nested)


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__)
def folders(request, tmp_path_factory):
    """A model of each kind, its smaller copy, and what was said of it."""
    place = tmp_path_factory.mktemp("models")
    request.param(place / "in")
    report = compress_folder(place / "in", place / "out", **SMALL)
    return place / "in", place / "out", report


def tensors_of(folder):
    (path,) = folder.rglob("model.safetensors")
    return path, load_file(path)


def expanded(folder, coded):
    """The model of a folder with its vectors replaced by decoded ones."""
    model = StaticModel.from_pretrained(folder)
    model.embedding = coded.to_table().matrix
    return model


def test_the_smaller_model_encodes_as_its_decoded_vectors_do(folders):
    source, target, report = folders
    model = load(target)
    assert isinstance(model, StaticModel)
    expected = expanded(source, report.layers[0].coded)
    np.testing.assert_allclose(model.encode(SENTENCES), expected.encode(SENTENCES), atol=2e-6)
    np.testing.assert_allclose(model.encode("the"), expected.encode("the"), atol=2e-6)
    mine, theirs = model.encode_as_sequence(SENTENCES), expected.encode_as_sequence(SENTENCES)
    for sequence, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(sequence, other, atol=2e-6)
    assert model.tokenize(SENTENCES) == expected.tokenize(SENTENCES)
    assert (model.normalize, model.max_length, model.dim) == (expected.normalize, expected.max_length, 50)
    threaded = model.encode(SENTENCES, batch_size=5, multiprocessing_threshold=0)
    np.testing.assert_allclose(threaded, expected.encode(SENTENCES), atol=2e-6)


def test_it_is_near_to_the_original(folders):
    source, target, _ = folders
    original = StaticModel.from_pretrained(source).encode(SENTENCES).astype(np.float64)
    small = load(target).encode(SENTENCES).astype(np.float64)
    lengths = np.linalg.norm(original, axis=1) * np.linalg.norm(small, axis=1)
    cosines = np.einsum("ij,ij->i", original, small)[lengths > 0] / lengths[lengths > 0]
    assert cosines.mean() > 0.93
    assert np.array_equal(np.flatnonzero(lengths == 0), np.flatnonzero(np.linalg.norm(original, axis=1) == 0))


def test_tokenizer_and_configuration_are_untouched_and_the_rest_is_smaller(folders):
    source, target, report = folders
    path, tensors = tensors_of(source)
    copied = [file.relative_to(source) for file in source.rglob("*") if file.is_file() and file != path]
    assert copied
    for file in copied:
        assert (target / file).read_bytes() == (source / file).read_bytes()
    added = {file.name for file in target.rglob("*") if file.is_file()} - {file.name for file in copied}
    assert added == {"embeddings.kdc"} | ({"tokens.safetensors"} if "weights" in tensors else set())
    (layer,) = report.layers
    table = tensors.get("embeddings", tensors.get("embedding.weight"))
    assert (layer.num_embeddings, layer.embedding_dim, layer.before) == (*table.shape, table.nbytes)
    assert report.model_before == path.stat().st_size
    new = path.parent.relative_to(source)
    parts = [target / new / name for name in added]
    assert report.model_after == sum(part.stat().st_size for part in parts)
    assert "whole model" in str(report)
    kdc = kdcode.load(target / new / "embeddings.kdc")
    assert isinstance(kdc, CodedTable)
    assert kdc.sizes.symbols == 0


def test_a_size_is_met(tmp_path):
    plain(tmp_path / "in")
    report = compress_folder(tmp_path / "in", tmp_path / "out", "6x", effort="fast")
    assert VECTORS.nbytes / report.layers[0].coded.sizes.total >= 6
    assert report.layers[0].coded.provenance["relative_error"] < 0.5


def test_weights_of_tokens_decide_which_rows_are_near(tmp_path):
    """The rows of heavy tokens come out nearer than without weights."""
    weights = np.where(np.arange(ROWS) < 300, 4.0, 0.05).astype(np.float32)
    errors = {}
    for name, given in (("with", weights), ("without", None)):
        StaticModel(VECTORS, tokenizer(), weights=given).save_pretrained(tmp_path / name)
        coded = compress_folder(tmp_path / name, tmp_path / f"{name} out", **SMALL).layers[0].coded
        errors[name] = np.square(coded.to_table().matrix - VECTORS)[:300].sum()
    assert errors["with"] < 0.8 * errors["without"]


def test_only_the_rows_of_tokens_are_decoded(tmp_path, monkeypatch):
    plain(tmp_path / "in")
    compress_folder(tmp_path / "in", tmp_path / "out", **SMALL)
    decoded = []
    vectors_at = CodedTable.vectors_at
    monkeypatch.setattr(
        CodedTable, "vectors_at", lambda self, rows: decoded.append(len(rows)) or vectors_at(self, rows)
    )
    model = load(tmp_path / "out")
    assert decoded == []
    model.encode([f"{WORDS[5]} {WORDS[9]} {WORDS[5]}"] * 500)
    assert sum(decoded) == 2


def test_it_is_saved_as_an_ordinary_model(tmp_path):
    plain(tmp_path / "in")
    compress_folder(tmp_path / "in", tmp_path / "out", **SMALL)
    model = load(tmp_path / "out")
    model.save_pretrained(tmp_path / "expanded")
    again = StaticModel.from_pretrained(tmp_path / "expanded")
    np.testing.assert_allclose(again.encode(SENTENCES), model.encode(SENTENCES), atol=2e-6)
    assert isinstance(again.embedding, np.ndarray)
    assert load(tmp_path / "out", normalize=False).normalize is False


def test_which_folders_are_of_model2vec(tmp_path):
    for make in MAKERS:
        make(tmp_path / make.__name__)
        assert is_model2vec(tmp_path / make.__name__)
    assert not is_model2vec(tmp_path)
    assert not is_model2vec(tmp_path / "none")
    other = tmp_path / "plain"
    save_file({"embeddings": VECTORS, "encoder.weight": VECTORS}, other / "model.safetensors")
    assert not is_model2vec(other)
    (other / "model.safetensors").write_bytes(b"damaged")
    assert not is_model2vec(other)


def listed(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_what_cannot_be_compressed_is_refused_before_work_and_nothing_is_written(tmp_path):
    plain(tmp_path / "in")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    save_file({"x": VECTORS}, tmp_path / "file")
    before = listed(tmp_path)
    for source, target, kind, said in (
        ("none", "out", MissingFileError, "there is no such file"),
        ("file", "out", FileError, "is a file, expected a folder"),
        ("full", "out", FormatError, "expected a folder of model2vec"),
        ("in", "full", FileError, "is there already"),
        ("in", "none/out", MissingFileError, "there is no folder"),
    ):
        with pytest.raises(kind, match=said):
            compress_folder(tmp_path / source, tmp_path / target, **SMALL)
    for keywords, said in (
        ({"codebook_sise": 4}, "codebook_sise"),
        ({"size": "2x", "code_length": 4}, "code_length is chosen for"),
        ({"codebook_size": 1024, "code_length": 50}, "the codes take .* bytes, and the table itself"),
    ):
        with pytest.raises(OptionError, match=said):
            compress_folder(tmp_path / "in", tmp_path / "out", **keywords)
    assert listed(tmp_path) == before


def test_a_folder_is_replaced_on_request_and_the_input_never(tmp_path):
    plain(tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    before = listed(tmp_path / "in")
    with pytest.raises(OptionError, match="is the input itself"):
        compress_folder(tmp_path / "in", tmp_path / "in", **SMALL, replace=True)
    compress_folder(tmp_path / "in", tmp_path / "out", **SMALL, replace=True)
    assert listed(tmp_path / "in") == before
    assert "old" not in listed(tmp_path / "out")
    assert len(load(tmp_path / "out").embedding) == ROWS


def test_a_run_that_fails_leaves_nothing(tmp_path):
    plain(tmp_path / "in")

    def stop(_):
        raise KeyboardInterrupt

    before = listed(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        compress_folder(tmp_path / "in", tmp_path / "out", **SMALL, progress=stop)
    assert listed(tmp_path) == before


def test_damaged_tensors_are_refused(tmp_path):
    for number, (tensors, said) in enumerate(
        (
            ({"embeddings": VECTORS[0]}, "outside of the 0 rows"),
            ({"embeddings": VECTORS, "mapping": np.array([0, ROWS])}, "outside of the 1500 rows"),
            ({"embeddings": VECTORS, "mapping": np.array([-1])}, "outside of the 1500 rows"),
            ({"embeddings": VECTORS, "weights": np.ones(3)}, "expected one of the weights for each of 1500 rows"),
            ({"embeddings": VECTORS, "weights": np.ones((3, 2))}, "expected one number for each token"),
            ({"embeddings": VECTORS, "weights": np.ones(3), "mapping": np.zeros(2, dtype=int)}, "for the same tokens"),
        )
    ):
        folder = tmp_path / str(number)
        plain(folder)
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(FormatError, match=said):
            compress_folder(folder, tmp_path / "out", **SMALL)
    assert not (tmp_path / "out").exists()


def test_a_damaged_or_wrong_folder_is_not_loaded(tmp_path):
    plain(tmp_path / "in")
    with pytest.raises(
        FormatError, match=r"expected a folder that compress_folder wrote.*StaticModel\.from_pretrained"
    ):
        load(tmp_path / "in")
    compress_folder(tmp_path / "in", tmp_path / "out", **SMALL)
    with pytest.raises(FormatError, match="this model is compressed already"):
        compress_folder(tmp_path / "out", tmp_path / "again", **SMALL)
    for name, content in (
        ("config.json", "{"),
        ("config.json", "[]"),
        ("tokenizer.json", "{}"),
        ("embeddings.kdc", ""),
    ):
        shutil.copytree(tmp_path / "out", tmp_path / "damaged")
        (tmp_path / "damaged" / name).write_text(content)
        with pytest.raises(KdcodeError, match=name):
            load(tmp_path / "damaged")
        shutil.rmtree(tmp_path / "damaged")


def test_without_model2vec_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(MissingExtraError, match=r"model2vec is required for loading a model2vec folder"):
        load(tmp_path)
