"""`kdcode compress-model` on a folder of model2vec."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

from kdcode.cli import main
from kdcode.data import glove_50d
from kdcode.integrations.model2vec_folder import load

FLAGS = ["--codebook-size", "16", "--code-length", "25", "--effort", "fast", "--quiet"]


@pytest.fixture
def folder(tmp_path):
    table = glove_50d().head(600)
    vocabulary = {symbol: row for row, symbol in enumerate(table.symbols)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="the"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    StaticModel(table.matrix.astype(np.float32), tokenizer).save_pretrained(tmp_path / "in")
    return tmp_path


def run(*words):
    return CliRunner().invoke(main, ["compress-model", *map(str, words)])


def test_it_is_compressed_and_loaded(folder):
    ran = run(folder / "in", folder / "out", *FLAGS)
    assert ran.exit_code == 0, ran.output
    assert "whole model" in ran.stdout
    assert "from kdcode.integrations.model2vec_folder import load" in ran.stdout
    assert load(folder / "out").encode(["the river"]).shape == (1, 50)
    assert sorted(path.name for path in folder.iterdir()) == ["in", "out"]


def test_json_and_force(folder):
    (folder / "out").mkdir()
    (folder / "out" / "config.json").write_text("{}")
    assert run(folder / "in", folder / "out", *FLAGS).exit_code != 0
    ran = run(folder / "in", folder / "out", *FLAGS, "--force", "--json")
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    assert said["layers"][0]["name"] == "embeddings"
    assert said["folder_after"] == sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--only", "embeddings"], "--only means nothing for a model of model2vec"),
        (["--gguf-file", "a.gguf"], "--gguf-file means nothing for a model of model2vec"),
        (["--dtype", "float16"], "--dtype means nothing for a model of model2vec"),
        (["--size", "nonsense"], "nonsense"),
    ],
)
def test_what_means_nothing_is_refused(folder, flags, said):
    ran = run(folder / "in", folder / "out", "--quiet", *flags)
    assert ran.exit_code != 0
    assert said in ran.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["in"]


def test_the_input_itself_is_never_replaced(folder):
    before = sorted(path.name for path in (folder / "in").iterdir())
    ran = run(folder / "in", folder / "in", *FLAGS, "--force")
    assert ran.exit_code != 0
    assert "is the input itself" in ran.stderr
    assert sorted(path.name for path in (folder / "in").iterdir()) == before
