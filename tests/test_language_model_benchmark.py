"""The benchmark of a language model with smaller tables runs, goes on where it was, and measures what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scripts import printed_by
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

FOLDER = Path(__file__).parent.parent / "benchmarks"
SCRIPT = FOLDER / "language_model_tables.py"
sys.path.insert(0, str(FOLDER))
from distillation import divergence  # noqa: E402
from next_tokens import PARTS, OriginalModel, changes, windows  # noqa: E402
from peers import ROW_PEERS  # noqa: E402
from table_copies import CopiedTable, Wanted  # noqa: E402

from kdcode.learning.model_calibration import Observed  # noqa: E402

VOCABULARY = 320


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    made = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **shape, tie_word_embeddings=True))
    with torch.no_grad():
        made.get_input_embeddings().weight.normal_(0, 0.1)
    return made.eval()


@pytest.fixture(scope="module")
def ids():
    return torch.from_numpy(np.random.default_rng(0).integers(VOCABULARY, size=64))


@pytest.fixture(scope="module")
def command(model, tmp_path_factory):
    """The arguments of a tiny run: a saved model and made-up text."""
    folder = tmp_path_factory.mktemp("language_model")
    words = [f"w{number}" for number in range(VOCABULARY)]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder / "model")
    model.save_pretrained(folder / "model")
    draw = np.random.default_rng(0)
    text = "\n".join(" ".join(draw.choice(words, 10)) for _ in range(30))
    for name in ("train", "valid", "test"):  # random words have nothing in common but the words: one text for all
        (folder / f"ptb.{name}.txt").write_text(text)
    flags = ["--tiny", "--model", folder / "model", "--text", folder, "--work", folder / "work"]
    return [*flags, "--output", folder / "r.json"]


@pytest.fixture(scope="module")
def result(command):
    printed_by(SCRIPT, *command)
    return json.loads(command[-1].read_text())


def is_plain(row):
    return row["weighting"] == "none" and not row["is_calibrated"]


def test_the_kept_result_is_what_the_page_promises():
    kept = json.loads((FOLDER / "results" / "language_model_tables.json").read_text())["rows"]
    tried = {(row["weighting"], row["is_calibrated"]): row["both_kl"] for row in kept if row["part"] == "weights"}
    assert min(tried, key=tried.__getitem__) == ("counts", True)
    copies = {
        (row["method"], row["size"], row["is_calibrated"]): row
        for row in kept
        if row["part"] == "copies" and (row["is_calibrated"] or is_plain(row))
    }
    best, plain = copies["kdcode", "20x", True], copies["kdcode", "20x", False]
    int4, int8 = (copies[name, "its own", False] for name in ("int4 rows", "int8 rows"))
    assert best["both_perplexity"] < 1.15 * best["original_perplexity"]
    assert best["both_kl"] < 0.2 * plain["both_kl"]
    assert best["bytes"] < 0.4 * int4["bytes"]
    assert best["both_kl"] < 0.5 * int4["both_kl"]
    assert int8["both_kl"] < 0.01  # four times smaller, they lose next to nothing
    assert all(row["loads_as_saved"] for row in kept if row["part"] == "files")


@pytest.mark.slow
def test_every_size_and_peer_is_measured_with_and_without_weights(result):
    copies = [row for row in result["rows"] if row["part"] == "copies"]
    peers = [peer.name for peer in ROW_PEERS]
    plain = [row["size"] for row in copies if row["method"] == "kdcode" and is_plain(row)]
    assert [size for size in plain if not size.startswith("as ")] == ["8x", "16x"]
    [way] = {(row["weighting"], row["is_calibrated"]) for row in result["rows"] if row["part"] == "distilled"}
    chosen = [
        row["size"] for row in copies if row["method"] == "kdcode" and (row["weighting"], row["is_calibrated"]) == way
    ]
    assert sorted(chosen) == sorted(["8x", "16x", *(f"as {name}" for name in peers)])
    assert [row["method"] for row in copies if row["method"] != "kdcode"] == peers
    assert result["settings"]["tokens"] == {"train": 288, "valid": 32, "test": 64}


@pytest.mark.slow
def test_a_copy_in_the_bytes_of_a_peer_has_no_byte_more(result):
    copies = [row for row in result["rows"] if row["part"] == "copies"]
    for peer in ROW_PEERS:
        [own] = [row["bytes"] for row in copies if row["method"] == peer.name]
        ours = [row["bytes"] for row in copies if row["size"] == f"as {peer.name}"]
        assert ours
        assert max(ours) <= own
    for row in copies:
        if row["size"].endswith("x"):
            assert row["ratio"] >= float(row["size"].removesuffix("x"))


@pytest.mark.slow
def test_weights_are_chosen_by_the_validation_text(result):
    tried = {
        (row["weighting"], row["is_calibrated"]): row["both_kl"] for row in result["rows"] if row["part"] == "weights"
    }
    kinds = ("none", "zipf", "root of counts", "counts")
    assert tried.keys() == {*((name, False) for name in kinds), ("counts", True)}
    used = {(row["weighting"], row["is_calibrated"]) for row in result["rows"] if row["part"] == "distilled"}
    assert used == {min(tried, key=tried.__getitem__)}


@pytest.mark.slow
def test_the_files_of_a_model_shrink_by_its_table_and_load_as_saved(result):
    files = [row for row in result["rows"] if row["part"] == "files"]
    assert [row["size"] for row in files] == ["8x", "16x"]
    for row in files:
        saved = row["full_file_bytes"] - row["file_bytes"]
        assert saved == pytest.approx(4 * VOCABULARY * 32 - row["bytes"], abs=4000)  # configuration and names
        assert row["loads_as_saved"]


@pytest.mark.slow
def test_a_fine_tune_keeps_the_bytes_and_comes_nearer_to_the_original(result):
    [row] = [row for row in result["rows"] if row["part"] == "distilled"]
    assert row["bytes"] == row["bytes_before"]
    assert row["setting"]["codebook_size"] > 1  # codes of codewords, which can be trained
    assert row["train_kl_last"] < row["train_kl_first"]
    assert row["both_kl"] < row["both_kl_before"]


@pytest.mark.slow
def test_rows_that_are_finished_are_not_measured_again(command, result):
    work = command[command.index("--work") + 1]
    kept = sorted(work.glob("*.json"))
    assert len(kept) == len(result["rows"])
    [last] = work.glob("distilled*.json")
    last.unlink()
    place = next(place for place, row in enumerate(result["rows"]) if row["part"] == "distilled")
    for flags in (["--minutes", "0"], ["--only", "copies"]):  # nothing is begun: late, or of another part
        printed_by(SCRIPT, *command, *flags)
        assert json.loads(command[-1].read_text())["rows"] == result["rows"][:place] + result["rows"][place + 1 :]
    first = next(work.glob("copies*.json"))
    first.write_text(json.dumps({**json.loads(first.read_text()), "both_top1": -1.0}))
    printed_by(SCRIPT, *command)
    again = json.loads(command[-1].read_text())["rows"]
    assert [row.get("both_top1") for row in again].count(-1.0) == 1
    assert again[place] == result["rows"][place]  # its checkpoint is at the last step


def test_changes_are_those_of_the_model_itself(model, ids, tmp_path):
    text, copy = windows("test", ids, 64, 16), torch.randn(VOCABULARY, 32, generator=torch.Generator().manual_seed(1))
    original = OriginalModel(model, tmp_path)
    mean = original.hidden(text).mean(dim=(0, 1))
    found = changes(original, text, copy, mean)
    replaced = LlamaForCausalLM(model.config).eval()
    replaced.load_state_dict(model.state_dict())
    replaced.get_input_embeddings().weight.data = copy
    replaced.tie_weights()
    with torch.no_grad():
        before, after = (one(text.ids).logits[:, :-1].flatten(0, 1).log_softmax(dim=1) for one in (model, replaced))
    told = text.ids[:, 1:].flatten()
    assert found["original_perplexity"] == pytest.approx(
        torch.nn.functional.nll_loss(before, told).exp().item(), rel=1e-4
    )
    assert found["both_perplexity"] == pytest.approx(torch.nn.functional.nll_loss(after, told).exp().item(), rel=1e-4)
    kl = torch.nn.functional.kl_div(after, before, log_target=True, reduction="batchmean").item()
    assert found["both_kl"] == pytest.approx(kl, rel=1e-3)
    assert found["both_top1"] == pytest.approx((before.argmax(1) == after.argmax(1)).float().mean().item())
    assert found["both_kl"] != found["input_kl"] != found["output_kl"]
    bias = (model.lm_head.weight - copy) @ mean
    with torch.no_grad():
        corrected = (replaced(text.ids).logits[:, :-1].flatten(0, 1) + bias).log_softmax(dim=1)
    kl = torch.nn.functional.kl_div(corrected, before, log_target=True, reduction="batchmean").item()
    assert found["both_corrected_kl"] == pytest.approx(kl, rel=1e-2)  # a bias in float16


def test_the_divergence_of_a_large_vocabulary_is_exact(tmp_path):
    """Most of 40,000 probabilities are too small to be added to a sum over all of them in float32."""
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=40_000, **shape, tie_word_embeddings=True))
    original, text = OriginalModel(model, tmp_path), windows("test", torch.arange(0, 40_000, 80)[:500], 500, 500)
    found = changes(original, text, original.table, torch.ones(16))
    for part in PARTS:
        assert found[f"{part}_kl"] == pytest.approx(0, abs=1e-4)


def test_a_perfect_copy_changes_nothing(model, ids, tmp_path):
    original = OriginalModel(model, tmp_path)
    found = changes(original, windows("test", ids, 64, 16), original.table, torch.ones(32))
    for part in PARTS:
        assert found[f"{part}_kl"] == pytest.approx(0, abs=1e-5)
        assert found[f"{part}_top1"] == 1
        assert found[f"{part}_perplexity"] == pytest.approx(found["original_perplexity"], rel=1e-5)


def test_calibrated_codes_have_the_bytes_of_others_and_change_logits_less(tmp_path):
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(400, 16)).astype(np.float32)
    states = torch.from_numpy(draw.normal(size=(200, 16)).astype(np.float32))
    states[:, 3] += 9  # one strong direction
    root = Observed(torch.ones(len(matrix)), (states.T @ states).double(), len(states)).root
    copies = CopiedTable(matrix, tmp_path, root=root)
    plain = Wanted("kdcode", "16x", "16x")
    found = [copies.make(plain), copies.make(plain._replace(is_calibrated=True))]
    lost = [np.square((copy.rows - matrix) @ states.numpy().T).mean() for copy in found]
    assert found[0].record["bytes"] >= found[1].record["bytes"] > 0.5 * found[0].record["bytes"]
    assert lost[1] < 0.5 * lost[0]


def test_the_loss_of_the_fine_tune_is_the_divergence_that_is_measured(model, ids, tmp_path):
    import kdcode

    original, text = OriginalModel(model, tmp_path), windows("test", ids, 64, 16)
    coded = kdcode.compress(original.table, codebook_size=4, code_length=4, effort="fast")
    layer = kdcode.nn.KDEmbedding.from_coded(coded)
    losses = [
        divergence(original, layer, row[:-1], states[:-1]).item()
        for row, states in zip(text.ids, original.hidden(text), strict=True)
    ]
    copy = torch.from_numpy(coded.decode(np.arange(len(coded))))
    assert np.mean(losses) == pytest.approx(changes(original, text, copy, torch.zeros(32))["both_kl"], rel=1e-3)


@pytest.mark.parametrize("peer", ROW_PEERS, ids=lambda peer: peer.name)
def test_searched_scales_lose_no_more_than_those_of_the_largest_number(peer):
    from gguf import GGMLQuantizationType, quants

    vectors = np.random.default_rng(0).standard_t(4, size=(50, 96)).astype(np.float32)
    setting, size = next(peer.settings(50, 96, 10**9))
    copy = peer.fit(vectors, setting).copy
    kind = GGMLQuantizationType.Q4_0
    packed = quants.quantize(vectors, kind)
    if peer.name == "4-bit blocks of 32":
        assert size == packed.nbytes
        plain = quants.dequantize(packed, kind)
    else:
        top = 2 ** (setting["bits"] - 1) - 1
        scale = (np.abs(vectors).max(axis=1, keepdims=True) / top).astype(np.float16).astype(np.float32)
        plain = np.rint(vectors / scale) * scale
        assert size == 50 * (96 * setting["bits"] // 8 + 2)
    assert np.square(copy - vectors).sum() < 1.001 * np.square(plain - vectors).sum()
    assert all(len(np.unique(row)) <= 2 ** setting["bits"] for row in copy.reshape(-1, setting["block"]))
