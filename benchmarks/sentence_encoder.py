"""A sentence encoder made smaller: its token table compressed, and the vectors of its sentences compressed.

    python benchmarks/sentence_encoder.py --model FOLDER --tasks FOLDER --work FOLDER

`--model` holds a Transformers sentence encoder such as all-MiniLM-L6-v2; `--tasks` holds trec/ and sst2/, one `label
text` a line.

- tokens: the token table is replaced by kdcode's codes at several sizes, by rows of small integers, and by kdcode's
  codes in as many bytes. How much do the vectors of sentences (SST-2's test set) change, are the same pairs of
  sentences similar (Spearman's correlation of the cosines of all pairs), and are the nearest 10 sentences the same?
- retrieval: the model is left alone, and the vectors of sentences are compressed. Questions of TREC's test set are
  queries; the training sentences of both sets are what is searched. What do the queries still find? "reranked" takes
  100 sentences by their codes and orders these by their full vectors.

Each row is kept in the work folder, so that a benchmark that is stopped goes on where it was.
Writes benchmarks/results/sentence_encoder.json with what is finished, and prints it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from model_files import file_sizes
from result_file import measured_rows, write_result
from table_copies import CopiedTable, Wanted, wanted
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import kdcode
from kdcode.evaluation import compare_tables
from kdcode.evaluation.correlation import spearman

RESULTS = Path(__file__).parent / "results" / "sentence_encoder.json"
TOKEN_TIMES, RETRIEVAL_TIMES = (40, 20, 10, 5), (10, 20, 40)
Vectors = np.ndarray
Record = dict[str, Any]


class Sentences(NamedTuple):
    """What is encoded: sentences for the token table; queries, and the sentences that they search."""

    judged: list[str]
    queries: list[str]
    searched: list[str]


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


def sentence_changes(before: Vectors, after: Vectors) -> Record:
    """What became of the (count, d) vectors of sentences."""
    cosines = (before * after).sum(axis=1)
    similar = [vectors @ vectors.T for vectors in (before, after)]
    pairs = np.triu_indices(len(before), 1)
    for scores in similar:
        np.fill_diagonal(scores, -np.inf)
    near = [np.argsort(-scores, axis=1, kind="stable")[:, :10] for scores in similar]
    return {
        "sentence_cosine": float(cosines.mean()),
        "sentence_cosine_lowest_1_percent": float(np.quantile(cosines, 0.01)),
        "similarity_spearman": spearman(similar[0][pairs], similar[1][pairs]),
        "sentence_recall_at_10": overlap(*near),
    }


def retrieval_record(vectors: Vectors, queries: Vectors, times: int) -> Record:
    """The vectors of sentences compressed, saved, loaded and searched."""
    table = kdcode.VectorTable(None, vectors)
    coded = kdcode.compress(table, f"{times}x", effort="fast")
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
        "table": f"{len(table)} x {table.embedding_dim}",
        "times": times,
        "full_bytes": 4 * table.matrix.size,
        "bytes": coded.sizes.embedding,
        "seconds": coded.learning_seconds,
        **compare_tables(table, coded).as_dict(),
        "open_ms": 1e3 * opened,
        "ms_per_query": 1e3 * searched / len(queries),
        "query_recall_at_10": overlap(exact, rows[:, :10]),
        "reranked_recall_at_10": overlap(exact, reranked[:, :10]),
    }


class Benchmark:
    """All rows, each measured once.

    Args:
        model: the sentence encoder.
        tokenizer: its own.
        sentences: what is encoded.
        work: where rows and codes are kept.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sentences, work: Path
    ) -> None:
        self.model, self.tokenizer, self.sentences, self.work = model, tokenizer, sentences, work
        self.full = model.get_input_embeddings()
        self.copies = CopiedTable(self.full.weight.detach().numpy(), work / "codes")

    def rows(self, token_times: tuple[int, ...], times: tuple[int, ...]) -> Iterator[tuple[Path, Callable[[], Record]]]:
        """The file of every row, and what measures it."""
        for one in wanted(self.copies.matrix.shape, token_times):
            yield self.work / f"tokens-{one.stem}.json", lambda one=one: self.tokens(one)
        for each in times:
            yield self.work / f"retrieval-{each}x.json", lambda each=each: retrieval_record(*self.retrieved, each)

    @cached_property
    def judged(self) -> Vectors:
        """Vectors of the sentences by the model as it came."""
        return self.encode(self.sentences.judged)

    @cached_property
    def retrieved(self) -> tuple[Vectors, Vectors]:
        """Vectors of what is searched and of the queries."""
        return self.encode(self.sentences.searched), self.encode(self.sentences.queries)

    def encode(self, sentences: list[str]) -> Vectors:
        """(count, d) vectors by the model as it is now."""
        return encode(self.model, self.tokenizer, sentences)

    def tokens(self, one: Wanted) -> Record:
        """A copy in place of the token table; the model is as before when it is done."""
        copy, before = self.copies.make(one), self.judged
        layer = nn.Embedding.from_pretrained(torch.from_numpy(np.ascontiguousarray(copy.rows)))
        self.model.set_input_embeddings(layer if copy.coded is None else kdcode.nn.CodedEmbedding(copy.coded))
        after = self.encode(self.sentences.judged)
        self.model.set_input_embeddings(self.full)
        ids = self.tokenizer(self.sentences.judged[:1], return_tensors="pt")["input_ids"]
        sizes = {} if copy.coded is None else file_sizes(self.model, copy.coded, ids)
        return {
            "part": "tokens",
            **copy.record,
            "full_bytes": self.copies.matrix.nbytes,
            **sizes,
            **sentence_changes(before, after),
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


def tiny_sentences(tokenizer: PreTrainedTokenizerBase) -> Sentences:
    """Random words."""
    words, random = [word for word in tokenizer.get_vocab() if word.isalpha()], np.random.default_rng(0)
    made = [" ".join(random.choice(words, 6)) for _ in range(320)]
    return Sentences(made[:60], made[:20], made[20:])


def read_tasks(tasks: Path) -> Sentences:
    """The sentences of both tasks."""
    files = ("trec/TREC.train.all", "sst2/stsa.binary.train")
    searched = [sentence for file in files for sentence in read_sentences(tasks / file)]
    judged, queries = (read_sentences(tasks / file) for file in ("sst2/stsa.binary.test", "trec/TREC.test.all"))
    return Sentences(judged, queries, searched)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="A sentence encoder with compressed tables.")
    parser.add_argument("--model", type=Path, help="folder with a sentence encoder")
    parser.add_argument("--tasks", type=Path, help="folder with trec/ and sst2/")
    work = Path("benchmarks/work/sentence_encoder")
    parser.add_argument("--work", type=Path, default=work, help="folder that keeps codes and finished rows")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no row after this time")
    parser.add_argument("--only", default="", help="begin rows of this part alone, such as tokens")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="an untrained model and made sentences, for tests")
    arguments = parser.parse_args()
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as folder:
            model, tokenizer = tiny_model(Path(folder))
        sentences, times = tiny_sentences(tokenizer), ((4,), (4,))
    elif arguments.model and arguments.tasks:
        model = AutoModel.from_pretrained(arguments.model).eval()
        tokenizer, times = AutoTokenizer.from_pretrained(arguments.model), (TOKEN_TIMES, RETRIEVAL_TIMES)
        sentences = read_tasks(arguments.tasks)
    else:
        parser.error("give --model and --tasks, or --tiny")
    benchmark = Benchmark(model, tokenizer, sentences, arguments.work)
    finished = measured_rows(benchmark.rows(*times), arguments.minutes, arguments.only)
    counts = {name: len(of) for name, of in sentences._asdict().items()}
    write_result(arguments.output, {"effort": "fast", **counts}, finished, ("numpy", "torch", "transformers"))


if __name__ == "__main__":
    main()
