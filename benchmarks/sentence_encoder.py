"""A sentence encoder made smaller: its token table compressed, and the vectors of its sentences compressed.

    python benchmarks/sentence_encoder.py --model FOLDER --tasks FOLDER

`--model` holds a Transformers sentence encoder such as all-MiniLM-L6-v2; `--tasks` holds trec/ and sst2/, one `label
text` a line. Questions of TREC's test set are queries; the training sentences of both sets are what is searched.

- tokens: the token table is replaced by codes. How much do the vectors of sentences change, and what the queries find?
- retrieval: the model is left alone, and the vectors of the sentences are compressed. What do the queries still find?
  "reranked" takes 100 sentences by their codes and orders these by their full vectors.

Writes benchmarks/results/sentence_encoder.json and prints a table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from result_file import write_result
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import kdcode

RESULTS = Path(__file__).parent / "results" / "sentence_encoder.json"
RATIOS = (10, 20, 40)
SEARCHED_FOR_TOKENS = 2000
"""Sentences that are encoded again for every size of the token table."""
Vectors = np.ndarray


def read_sentences(path: Path) -> list[str]:
    """The sentences of a file, without their labels."""
    lines = path.read_text(encoding="latin-1").splitlines()
    return [line.partition(" ")[2] for line in lines]


@torch.no_grad()
def encode(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> Vectors:
    """(count, d) vectors of length 1: the mean over the tokens of each sentence."""
    order = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
    found = np.empty((len(sentences), model.config.hidden_size), dtype=np.float32)
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        batch = tokenizer([sentences[row] for row in rows], padding=True, truncation=True, return_tensors="pt")
        mask = batch["attention_mask"][:, :, None]
        means = (model(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
        found[rows] = nn.functional.normalize(means, dim=1).numpy()
    return found


def nearest(queries: Vectors, vectors: Vectors, count: int = 10) -> Vectors:
    """(queries, count) rows with the largest dot products, largest first."""
    return np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :count]


def overlap(one: Vectors, other: Vectors) -> float:
    """The mean share of rows that two lists of rows have in common."""
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(one.tolist(), other.tolist(), strict=True)]))


def compressed(table: kdcode.VectorTable, times: int) -> tuple[kdcode.CodedTable, dict[str, Any]]:
    """A table made smaller, and the part of its record that all rows have."""
    started = time.perf_counter()
    coded = kdcode.compress(table, f"{times}x", effort="fast")
    seconds = time.perf_counter() - started
    return coded, {
        "table": f"{len(table)} x {table.embedding_dim}",
        "times": times,
        "full_bytes": 4 * table.matrix.size,
        "bytes": coded.sizes.embedding,
        "seconds": seconds,
        **kdcode.evaluate(table, coded).as_dict(),
    }


def tokens_record(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, times: int, queries: list[str], searched: list[str]
) -> dict[str, Any]:
    """The token table replaced; the model is as before when it is done."""
    full = model.get_input_embeddings()
    before = encode(model, tokenizer, queries), encode(model, tokenizer, searched)
    coded, record = compressed(kdcode.as_table(full, symbols=tokenizer.get_vocab()), times)
    model.set_input_embeddings(kdcode.nn.CodedEmbedding(coded))
    after = encode(model, tokenizer, queries), encode(model, tokenizer, searched)
    model.set_input_embeddings(full)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "part": "tokens",
        **record,
        "model_bytes": 4 * parameters,
        "sentence_cosine": float((before[0] * after[0]).sum(axis=1).mean()),
        "sentence_recall_at_10": overlap(nearest(*before), nearest(*after)),
    }


def retrieval_record(vectors: Vectors, queries: Vectors, times: int) -> dict[str, Any]:
    """The vectors of sentences compressed, saved, loaded and searched."""
    coded, record = compressed(kdcode.VectorTable(None, vectors), times)
    with tempfile.TemporaryDirectory() as folder:
        kdcode.save(coded, Path(folder, "sentences.kdc"))
        started = time.perf_counter()
        loaded = kdcode.load(Path(folder, "sentences.kdc"))
        opened = time.perf_counter() - started
        loaded.neighbors(queries[:1], 100, metric="dot")  # maps the file
        started = time.perf_counter()
        found = loaded.neighbors(queries, 100, metric="dot")
        searched = time.perf_counter() - started
    rows = np.array([[int(near.symbol) for near in one] for one in found])
    scores = np.take_along_axis(queries @ vectors.T, rows, axis=1)
    reranked = np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    exact = nearest(queries, vectors)
    return {
        "part": "retrieval",
        **record,
        "open_ms": 1e3 * opened,
        "ms_per_query": 1e3 * searched / len(queries),
        "query_recall_at_10": overlap(exact, rows[:, :10]),
        "reranked_recall_at_10": overlap(exact, reranked[:, :10]),
    }


def tiny_model(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """An untrained encoder over a small vocabulary, saved and loaded like any other."""
    from transformers import BertConfig, BertModel, BertTokenizer

    from kdcode.data import glove_50d

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for word in glove_50d().head(800) if word.isalpha())]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="A sentence encoder with compressed tables.")
    parser.add_argument("--model", type=Path, help="folder with a sentence encoder")
    parser.add_argument("--tasks", type=Path, help="folder with trec/ and sst2/")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="an untrained model and made sentences, for tests")
    arguments = parser.parse_args()
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as folder:
            model, tokenizer = tiny_model(Path(folder))
        words, random = [word for word in tokenizer.get_vocab() if word.isalpha()], np.random.default_rng(0)
        made = [" ".join(random.choice(words, 6)) for _ in range(320)]
        queries, searched, ratios = made[:20], made[20:], (4,)
    elif arguments.model and arguments.tasks:
        model = AutoModel.from_pretrained(arguments.model).eval()
        tokenizer, ratios = AutoTokenizer.from_pretrained(arguments.model), RATIOS
        queries = read_sentences(arguments.tasks / "trec/TREC.test.all")
        files = ("trec/TREC.train.all", "sst2/stsa.binary.train")
        searched = [sentence for file in files for sentence in read_sentences(arguments.tasks / file)]
    else:
        parser.error("give --model and --tasks, or --tiny")
    fewer = searched[:SEARCHED_FOR_TOKENS]
    records = [tokens_record(model, tokenizer, times, queries, fewer) for times in ratios]
    vectors, asked = encode(model, tokenizer, searched), encode(model, tokenizer, queries)
    records += [retrieval_record(vectors, asked, times) for times in ratios]
    rounded = [
        {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in record.items()}
        for record in records
    ]
    settings = {"effort": "fast", "queries": len(queries), "searched": len(searched), "searched_for_tokens": len(fewer)}
    write_result(arguments.output, settings, rounded, ("numpy", "torch", "transformers"))
    for record in rounded:
        print("  ".join(f"{key} {value}" for key, value in record.items()))


if __name__ == "__main__":
    main()
