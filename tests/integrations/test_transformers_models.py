"""Transformers models, tiny ones of several families: compressed, saved, loaded again, and used."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from itertools import chain

import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kdcode.errors import OptionError, StorageError
from kdcode.nn import CodedEmbedding, CodedEmbeddingView, CodedOutput, compress_embeddings, freeze_embeddings

transformers = pytest.importorskip("transformers")

VOCABULARY, SIZE = 3000, 32
SMALL = {"codebook_size": 16, "code_length": 8, "composition": "product", "effort": "fast", "min_rows": 1000}
"""Codes that are learned in no time."""
LAYERS = {"vocab_size": VOCABULARY, "hidden_size": SIZE, "intermediate_size": 48, "num_hidden_layers": 1}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
IDS = torch.tensor([[1, 2, 3, 999], [5, 5, 0, 2999]])


def bert(kind="BertForMaskedLM"):
    config = transformers.BertConfig(**LAYERS, num_attention_heads=2, max_position_embeddings=32)
    return getattr(transformers, kind)(config)


def llama(tie=True, **more):
    config = transformers.LlamaConfig(**LAYERS, **TOKENS, num_attention_heads=2, tie_word_embeddings=tie, **more)
    return transformers.LlamaForCausalLM(config)


def mamba():
    config = transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=SIZE, state_size=4, num_hidden_layers=1, **TOKENS
    )
    return transformers.MambaForCausalLM(config)


def gpt2():
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=SIZE, n_layer=1, n_head=2, n_positions=32, **TOKENS)
    return transformers.GPT2LMHeadModel(config)


def gemma():
    config = transformers.Gemma3TextConfig(
        **LAYERS, **TOKENS, num_attention_heads=2, num_key_value_heads=1, head_dim=16
    )
    return transformers.Gemma3ForCausalLM(config)


def t5(tie=True):
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=SIZE, d_ff=48, num_layers=1, num_heads=2, d_kv=16, decoder_start_token_id=0,
        tie_word_embeddings=tie,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def bart():
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=SIZE, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32,
        scale_embedding=True,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


MODELS = {"bert": bert, "llama": llama, "gpt2": gpt2, "mamba": mamba, "gemma": gemma, "t5": t5, "bart": bart}
KIND_OF = {"bert": "MaskedLM", "t5": "Seq2SeqLM", "bart": "Seq2SeqLM"}


def auto_class(name):
    return getattr(transformers, f"AutoModelFor{KIND_OF.get(name, 'CausalLM')}")


def inputs_of(model):
    return {"input_ids": IDS, **({"decoder_input_ids": IDS} if model.config.is_encoder_decoder else {})}


def logits_of(model):
    with torch.no_grad():
        return model(**inputs_of(model)).logits


def compressed(make, **arguments):
    torch.manual_seed(0)
    model = make().eval()
    return model, compress_embeddings(model, **{**SMALL, **arguments})


class AllocatedTensors(TorchDispatchMode):
    """Remembers how many numbers the largest float tensor had that any operator gave, those without memory left out."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else [out]:
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not value.is_meta:
                self.largest = max(self.largest, value.numel())
        return out


@pytest.fixture(autouse=True)
def in_one_thread(monkeypatch):
    """`AllocatedTensors` sees the thread that it is used in."""
    monkeypatch.setenv("HF_DEACTIVATE_ASYNC_LOAD", "1")


def tensor_bytes(folder):
    return sum(tensor.nbytes for tensor in safetensors.torch.load_file(folder / "model.safetensors").values())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_saved_and_loaded_without_its_table(name, tmp_path):
    MODELS[name]().save_pretrained(tmp_path / "original")
    model, report = compressed(MODELS[name])
    model.save_pretrained(tmp_path / "coded")
    with AllocatedTensors() as allocated:
        loaded, info = auto_class(name).from_pretrained(tmp_path / "coded", output_loading_info=True)
    assert allocated.largest < VOCABULARY * SIZE / 4
    assert not any(info.values())
    assert torch.equal(logits_of(loaded), logits_of(model))
    assert loaded.config.to_dict()["quantization_config"] == model.config.to_dict()["quantization_config"]
    saved = sum(layer.before - layer.after for layer in report.layers)
    assert tensor_bytes(tmp_path / "coded") == tensor_bytes(tmp_path / "original") - saved
    assert report.layers[0].after == VOCABULARY * 4 + 2 * 16 * SIZE + 4 * 8


def test_an_allocated_table_would_be_seen(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):  # as where nobody imports kdcode
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    with AllocatedTensors() as allocated:
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, ignore_mismatched_sizes=True)
    assert allocated.largest == VOCABULARY * SIZE


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_decoded_table(name):
    torch.manual_seed(0)
    original = MODELS[name]().eval()
    model = copy.deepcopy(original)
    compress_embeddings(model, **SMALL)
    with torch.no_grad():
        original.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight)
    torch.testing.assert_close(logits_of(model), logits_of(original), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "bert"])
def test_text_is_generated_without_the_table(name, tmp_path):
    model, _ = compressed(MODELS[name])
    model.save_pretrained(tmp_path)
    loaded = auto_class(name).from_pretrained(tmp_path)
    with AllocatedTensors() as allocated:
        tokens = loaded.generate(IDS, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert allocated.largest < VOCABULARY * SIZE / 4
    assert torch.equal(tokens, model.generate(IDS, max_new_tokens=4, min_new_tokens=4, do_sample=False))


@pytest.mark.parametrize("heads", ["full", "all", "alone"])
@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_other_heads_are_saved_and_loaded_too(heads, tie, name, tmp_path):
    arguments = {"only": "lm_head"} if heads == "alone" else {"heads": heads}
    model, _ = compressed(lambda: MODELS[name](tie=tie), **arguments)
    model.save_pretrained(tmp_path)
    loaded, info = auto_class(name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    assert type(loaded.lm_head) is type(model.lm_head) is (nn.Linear if heads == "full" else CodedOutput)
    assert torch.equal(logits_of(loaded), logits_of(model))


def test_a_model_may_be_loaded_with_and_without_its_head(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path / "whole")
    base = transformers.AutoModel.from_pretrained(tmp_path / "whole")
    with torch.no_grad():
        assert torch.equal(base(IDS)[0], model.model(IDS)[0])
    base.save_pretrained(tmp_path / "base")
    with AllocatedTensors() as allocated:
        again, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", output_loading_info=True)
    assert allocated.largest < VOCABULARY * SIZE / 4
    assert not any(info.values())
    assert torch.equal(logits_of(again), logits_of(model))


@pytest.mark.parametrize("name", ["bert", "gemma", "t5"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types(name, dtype, tmp_path):
    model, _ = compressed(MODELS[name])
    model.save_pretrained(tmp_path)
    loaded = auto_class(name).from_pretrained(tmp_path, dtype=dtype)
    found = logits_of(loaded)
    assert found.dtype == dtype
    codec = next(layer for layer in loaded.modules() if isinstance(layer, CodedEmbedding)).codec
    assert codec.codebook.dtype == torch.float16  # as stored
    expected = logits_of(model)
    assert float((found.float() - expected).norm() / expected.norm()) < 0.05
    if name == "bert":  # the others keep some numbers in float32 when they are loaded
        assert torch.equal(logits_of(model.to(dtype)), found)


def test_sharded_files(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits_of(loaded), logits_of(model))


def test_a_device_map(tmp_path):
    pytest.importorskip("accelerate")
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map={"": "cpu"})
    assert torch.equal(logits_of(loaded), logits_of(model))


def test_saving_again_changes_nothing(tmp_path):
    model, _ = compressed(bart)
    model.save_pretrained(tmp_path / "first")
    transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "second")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_one_layer_in_two_places_is_stored_once(tmp_path):
    def shared():
        model = bart()
        model.set_input_embeddings(model.model.shared)  # now the encoder and the decoder have this very layer
        return model

    model, _ = compressed(shared)
    assert isinstance(model.model.encoder.embed_tokens, CodedEmbeddingView)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(logits_of(loaded), logits_of(model))


def test_a_model_inside_another_module_can_be_saved(tmp_path):
    torch.manual_seed(0)
    whole = nn.Sequential(bert("BertModel").eval(), nn.Linear(SIZE, 2))
    compress_embeddings(whole, **SMALL)
    whole[0].save_pretrained(tmp_path)
    loaded = transformers.AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(IDS)[0], whole[0](IDS)[0])


@pytest.mark.parametrize("load", [False, True])
def test_the_vocabulary_cannot_be_resized(load, tmp_path):
    model, _ = compressed(llama)
    if load:
        model.save_pretrained(tmp_path)
        model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    before = logits_of(model)
    with pytest.raises(OptionError, match=r"resize_token_embeddings: .* codes of 3000 rows"):
        model.resize_token_embeddings(VOCABULARY + 1)
    assert torch.equal(logits_of(model), before)
    for same in ([], [VOCABULARY], [None, 8]):
        assert isinstance(model.resize_token_embeddings(*same), CodedEmbedding)
    model.tie_weights()
    assert torch.equal(logits_of(copy.deepcopy(model)), before)


def test_the_rest_of_a_loaded_model_is_trained_as_usual(tmp_path):
    model, _ = compressed(llama, trainable=True)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).train()
    loaded(input_ids=IDS, labels=IDS).loss.backward()
    assert all(value.grad is not None for value in loaded.parameters())
    assert float(loaded.model.embed_tokens.codec.codebook.grad.abs().sum()) > 0
    assert loaded.half().dtype == torch.float16


def test_trained_codewords_are_saved_in_the_promised_bytes(tmp_path):
    model, report = compressed(llama, trainable=True)
    freeze_embeddings(model)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.model.embed_tokens.nbytes == report.layers[0].coded.sizes.embedding
    assert torch.equal(logits_of(loaded), logits_of(model))


def test_a_damaged_folder_is_refused(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    del tensors["model.embed_tokens.code_rows"]
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(StorageError, match=r"model\.embed_tokens\.code_rows: the folder does not have this tensor"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_codes_without_codewords_are_refused(tmp_path):
    model, _ = compressed(llama, codebook_size=5)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tensors["model.embed_tokens.code_rows"][7] = 255
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(StorageError, match=r"model\.embed_tokens: codes must be below 5"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_folder_of_another_architecture_is_refused(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    layers = config["quantization_config"]["layers"]
    layers["model.nowhere"] = layers.pop("model.embed_tokens")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match=r"model\.nowhere: the folder has codes for this layer"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_models_that_others_have_quantized_are_refused():
    model = llama()
    model.hf_quantizer = transformers.quantizers.auto.AutoHfQuantizer.from_config({"quant_method": "fp8"})
    with pytest.raises(OptionError, match="its weights are quantized by fp8"):
        compress_embeddings(model, **SMALL)


@pytest.mark.slow
def test_one_import_is_enough_to_load_in_another_process(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path)
    script = f"""
import sys
import kdcode.integrations.transformers_models
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained({str(tmp_path)!r})
print(type(model.lm_head).__name__, [name for name in sys.modules if name.startswith("kdcode.learning")])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "CodedOutput []", run.stderr


@pytest.mark.slow
def test_a_folder_is_refused_without_the_import(tmp_path):
    compressed(bert)[0].save_pretrained(tmp_path)
    code = f"from transformers import AutoModelForMaskedLM as M\nM.from_pretrained({str(tmp_path)!r})\n"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "word_embeddings.weight" in found.stderr
    assert "ignore_mismatched_sizes" in found.stderr


def test_the_folder_can_be_moved(tmp_path):
    model, _ = compressed(llama)
    model.save_pretrained(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there")
    assert [tensor.dtype for tensor in chain(loaded.parameters(), loaded.buffers())]
    assert torch.equal(logits_of(loaded), logits_of(model))


TRANSFORM = {"composition": "transform", "row_bytes": 20.0, "min_rows": 1000}


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_transform_codes_are_saved_and_loaded(name, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    report = compress_embeddings(model, **TRANSFORM)
    model.save_pretrained(tmp_path / "coded")
    loaded, info = auto_class(name).from_pretrained(tmp_path / "coded", output_loading_info=True)
    assert not any(info.values())
    assert torch.equal(logits_of(loaded), logits_of(model))
    tables = [layer for layer in loaded.modules() if isinstance(layer, CodedEmbedding)]
    assert [table.nbytes for table in tables] == [report.layers[0].after]
    assert tables[0].row_classes is not None


def test_damaged_transform_codes_are_refused(tmp_path):
    torch.manual_seed(0)
    model = llama().eval()
    compress_embeddings(model, **TRANSFORM)
    layer = model.model.embed_tokens
    for name, damage in (("row_starts", lambda: layer.row_starts.add_(1)), ("steps", layer.codec.steps.neg_)):
        damage()
        model.save_pretrained(tmp_path / name)
        with pytest.raises(StorageError, match=r"model\.embed_tokens: "):
            transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name)
