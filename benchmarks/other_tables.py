"""Tables of other kinds at equal total bytes: kdcode with a size alone, beside its quick peers and the Gaussian limit.

    python benchmarks/other_tables.py --text FOLDER --encoder FOLDER --tasks FOLDER --work FOLDER

The tables are made first, and kept in the work folder:

    narrow-8, narrow-16, narrow-32   words of the Penn Treebank, skip-gram vectors of few dimensions (gensim)
    n-grams                          hash buckets of the n-grams of these words, as fastText has them (gensim)
    sentences                        sentences of TREC and SST-2, by a sentence encoder such as all-MiniLM-L6-v2
    heavy-tails                      Student's t with 3 degrees of freedom, 64 dimensions
    after-relu                       normal rows of a falling spectrum, negative numbers set to zero, 96 dimensions
    sparse                           normal numbers of which 95% are set to zero, 100 dimensions
    clusters                         normal rows around 500 points, 5 times as far from each other, 64 dimensions

Finished records are kept there too. A run of some cells replaces these in the result, and leaves the others alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from equal_bytes import LIMIT, dated, measure, outcome
from own_process import measured_apart
from peer_kinds import Matrix
from result_file import renewed_rows, write_result

RESULTS = Path(__file__).parent / "results" / "other_tables.json"
TIMES = (8, 20, 80)
METHODS = ("kdcode", "entropy-coded scalar", "faiss PQ", "faiss RQ", "TurboQuant", LIMIT)
SLOW = {"faiss RQ": ("clusters", "tiny")}
"""Methods that take minutes, and the tables that they are measured on: where they are strongest."""
NARROW = (8, 16, 32)
Maker = Callable[[argparse.Namespace], Matrix]


def narrow(dim: int) -> Maker:
    """What makes skip-gram vectors of the words of a text, of so many dimensions."""

    def made(arguments: argparse.Namespace) -> Matrix:
        from gensim.models import Word2Vec

        sentences = _sentences(arguments.text)
        model = Word2Vec(sentences, vector_size=dim, min_count=1, sg=1, epochs=5, workers=1, seed=0)
        return np.asarray(model.wv.vectors, dtype=np.float32)

    return made


def ngrams(arguments: argparse.Namespace) -> Matrix:
    """(100,000, 100) vectors of hash buckets, many of which few n-grams fall into."""
    from gensim.models import FastText

    model = FastText(
        _sentences(arguments.text),
        vector_size=100,
        min_count=1,
        min_n=3,
        max_n=5,
        bucket=100_000,
        sg=1,
        epochs=3,
        workers=1,
        seed=0,
    )
    return np.asarray(model.wv.vectors_ngrams, dtype=np.float32)


def sentences(arguments: argparse.Namespace) -> Matrix:
    """(15,565, 384) vectors of length 1, of TREC and SST-2 by all-MiniLM-L6-v2."""
    from sentence_encoder import encode
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = (kind.from_pretrained(arguments.encoder) for kind in (AutoModel, AutoTokenizer))
    return np.asarray(encode(model.eval(), tokenizer, _task_sentences(arguments.tasks)), dtype=np.float32)


def heavy_tails(arguments: argparse.Namespace) -> Matrix:
    """(20,000, 64) numbers of Student's t distribution."""
    return np.random.default_rng(0).standard_t(3, size=(20_000, 64)).astype(np.float32)


def after_relu(arguments: argparse.Namespace) -> Matrix:
    """(10,000, 96) numbers of at least 0, about half of them 0."""
    random = np.random.default_rng(0)
    directions = np.linalg.qr(random.normal(size=(96, 96)))[0]
    rows = (random.normal(size=(10_000, 96)) * np.geomspace(1, 0.1, 96)) @ directions
    return np.maximum(rows, 0).astype(np.float32)


def sparse(arguments: argparse.Namespace) -> Matrix:
    """(10,000, 100) numbers, 5% of them other than 0."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(10_000, 100))
    return np.where(random.random(rows.shape) < 0.05, rows, 0).astype(np.float32)


def clusters(arguments: argparse.Namespace) -> Matrix:
    """(20,000, 64) rows around points of which some have many more rows than others."""
    random = np.random.default_rng(0)
    spreads = np.linspace(1, 0.3, 64)
    directions = np.linalg.qr(random.normal(size=(64, 64)))[0]
    points = random.normal(size=(500, 64)) * spreads
    shares = 1 / (np.arange(500) + 5.0)
    nearest = random.choice(500, 20_000, p=shares / shares.sum())
    rows = points[nearest] + 0.2 * spreads * random.normal(size=(20_000, 64))
    return (rows @ directions).astype(np.float32)


def tiny(arguments: argparse.Namespace) -> Matrix:
    """(600, 12) normal numbers, for tests."""
    return np.random.default_rng(0).normal(size=(600, 12)).astype(np.float32)


def _sentences(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "ptb.train.txt").read_text(encoding="utf-8").splitlines()]


def _task_sentences(folder: Path) -> list[str]:
    from sentence_encoder import read_sentences

    return [
        sentence
        for path in sorted([*folder.glob("trec/*"), *folder.glob("sst2/*")])
        for sentence in read_sentences(path)
    ]


TABLES: dict[str, Maker] = {
    **{f"narrow-{dim}": narrow(dim) for dim in NARROW},
    "n-grams": ngrams,
    "sentences": sentences,
    "heavy-tails": heavy_tails,
    "after-relu": after_relu,
    "sparse": sparse,
    "clusters": clusters,
}


def is_measured(name: str, method: str) -> bool:
    """Whether a method is measured on a table."""
    return method not in SLOW or name in SLOW[method]


def table_file(arguments: argparse.Namespace, name: str) -> Path:
    """The file of a table in the work folder, which is made where there is none."""
    path: Path = arguments.work / f"{name}.npy"
    if not path.exists():
        arguments.work.mkdir(parents=True, exist_ok=True)
        made = {**TABLES, "tiny": tiny}[name](arguments)
        np.save(path, np.ascontiguousarray(made, dtype=np.float32))
    return path


def cell(arguments: argparse.Namespace, name: str, times: int, method: str) -> dict[str, Any]:
    """The record of a cell, measured by a process of its own unless the work folder has it."""
    vectors = table_file(arguments, name)
    shape = np.load(vectors, mmap_mode="r").shape
    kept = arguments.work / f"{name}-{times}x-{method.replace(' ', '_')}.json"
    flags = ["--only", str(vectors), str(times), method, "--threads", str(arguments.threads)]
    record = measured_apart(__file__, flags, kept, arguments.threads, arguments.minutes)
    found = {
        "table": name,
        "rows": shape[0],
        "dim": shape[1],
        "times": times,
        "method": method,
        "bytes": None,
        **record,
    }
    print(f"{name:12}{times:4}x  {method:22} {outcome(found)}", flush=True)
    return found


def _place(row: dict[str, Any]) -> tuple[int, ...]:
    return [*TABLES, "tiny"].index(row["table"]), row["times"], METHODS.index(row["method"])


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="kdcode and its peers on tables of other kinds.")
    parser.add_argument("--text", type=Path, help="folder with ptb.train.txt")
    parser.add_argument("--encoder", type=Path, help="folder with a sentence encoder")
    parser.add_argument("--tasks", type=Path, help="folder with trec/ and sst2/")
    parser.add_argument(
        "--work", type=Path, default=Path("other_tables-work"), help="where tables and records are kept"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tables", default=",".join(TABLES), help="which tables, with commas between")
    parser.add_argument("--times", default=",".join(map(str, TIMES)), help="how many times smaller")
    parser.add_argument("--methods", default=";".join(METHODS), help="which methods, with semicolons between")
    parser.add_argument("--threads", type=int, default=2, help="of every method")
    parser.add_argument("--minutes", type=float, default=15, help="to give up a method in a cell after")
    parser.add_argument("--only", nargs=3, metavar=("FILE", "TIMES", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        vectors = np.load(arguments.only[0])
        record = measure(vectors, arguments.only[2], 4 * vectors.size // int(arguments.only[1]))
        print(json.dumps(dated(record, arguments.threads)))
        return
    cells = [
        cell(arguments, name, int(times), method)
        for name in arguments.tables.split(",")
        for times in arguments.times.split(",")
        for method in arguments.methods.split(";")
        if is_measured(name, method)
    ]
    rows = renewed_rows(arguments.output, cells, _place)
    write_result(arguments.output, {"seed": 0}, rows, ("numpy", "torch", "faiss-cpu"))


if __name__ == "__main__":
    main()
