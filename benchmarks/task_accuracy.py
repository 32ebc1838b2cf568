"""What compression does to a task: classifiers on top of GloVe, with the full table and with smaller copies of it.

    python benchmarks/task_accuracy.py --glove FOLDER --tasks FOLDER

`--glove` holds vectors.npy and symbols.txt (GloVe 6B, 100 dimensions), whose most frequent 50,000 words are used;
`--tasks` holds trec/ (question types) and sst2/ (sentiment), one `label text` a line. For each copy of the table, a
small convolutional classifier on frozen embeddings is used in two ways:

- replaced: it was trained with the full table, whose layer is then replaced by the copy, without any more training;
- trained: it is trained with the copy from the start.

kdcode weights rows by how often words are used: words are sorted by frequency, and the weights follow Zipf's law.
"Unweighted" copies show what that changes; they are only put in place of the full table. Accuracies are on the test
sets, mean and standard deviation over seeds. Words that are not in the table are left out.
Writes benchmarks/results/task_accuracy.json and prints a table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from result_file import write_result
from torch import Tensor, nn

import kdcode
from kdcode.evaluation import compare_tables

RESULTS = Path(__file__).parent / "results" / "task_accuracy.json"
RATIOS = (10, 20, 40)
FILES = {
    "trec": ("trec/TREC.train.all", "trec/TREC.test.all"),
    "sst2": ("sst2/stsa.binary.train", "sst2/stsa.binary.test"),
}
BATCH, EPOCHS, LEARNING_RATE, FILTERS, DROPOUT = 50, 8, 1e-3, 100, 0.4
WIDTHS = (1, 3)
ZIPF_OFFSET = 10


class Copy(NamedTuple):
    """A table in fewer bytes.

    Args:
        record: what is known of it: name, bytes, ratio, setting, and what was lost.
        layer: makes the embedding layer that serves it.
        is_trained_with: whether classifiers are trained with it, too.
    """

    record: dict[str, Any]
    layer: Callable[[], nn.Module]
    is_trained_with: bool = True


class Sentences(NamedTuple):
    """Labelled sentences: ids (count, longest), padded; which ids are real (count, longest, 1); labels (count,)."""

    ids: Tensor
    real: Tensor
    labels: Tensor


class Classifier(nn.Module):
    """Convolutions of several widths over word vectors, the largest value of each, and one linear layer."""

    def __init__(self, embedding: nn.Module, dim: int, classes: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, FILTERS, width, padding="same") for width in WIDTHS)
        self.output = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(FILTERS * len(WIDTHS), classes))

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """(batch, length) ids and (batch, length, 1) which of them count, to (batch, classes) logits."""
        words = (self.embedding(ids) * real).transpose(1, 2)
        found = [torch.relu(convolution(words)).amax(dim=2) for convolution in self.convolutions]
        return self.output(torch.cat(found, dim=1))


def batches(data: Sentences, order: Tensor) -> Iterator[Sentences]:
    """Parts of the sentences in the given order, each as long as its longest sentence."""
    for rows in order.split(BATCH):
        longest = max(1, int(data.real[rows].sum(dim=1).max()))
        yield Sentences(data.ids[rows, :longest], data.real[rows, :longest], data.labels[rows])


def train(layer: nn.Module, dim: int, data: Sentences, seed: int) -> Classifier:
    """A classifier on a frozen layer; the seed decides its start, the order of sentences and what is dropped out."""
    torch.manual_seed(seed)
    model = Classifier(layer.requires_grad_(False), dim, int(data.labels.max()) + 1)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=LEARNING_RATE, weight_decay=1e-4)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=EPOCHS)
    for _ in range(EPOCHS):
        for part in batches(data, torch.randperm(len(data.labels))):
            loss = nn.functional.cross_entropy(model(part.ids, part.real), part.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        falling.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: Classifier, data: Sentences) -> float:
    """The share of sentences that get their label."""
    parts = batches(data, torch.arange(len(data.labels)))
    right = sum(int((model(part.ids, part.real).argmax(dim=1) == part.labels).sum()) for part in parts)
    return right / len(data.labels)


def float32_rows(table: kdcode.VectorTable) -> Copy:
    """The table as it is."""
    return rows_copy("float32 rows", table, np.asarray(table.matrix, dtype=np.float32), 4 * table.matrix.size)


def int8_rows(table: kdcode.VectorTable) -> Copy:
    """Every row as 8-bit integers times a float16 scale of its own."""
    rows = np.asarray(table.matrix, dtype=np.float32)
    scales = (np.abs(rows).max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    integers = np.clip(np.round(rows / scales), -127, 127)
    return rows_copy("int8 rows", table, integers * scales, rows.size + 2 * len(rows))


def rows_copy(name: str, table: kdcode.VectorTable, rows: np.ndarray, size: int) -> Copy:
    """A copy that keeps a row of numbers for every word."""
    lost = compare_tables(table, kdcode.VectorTable(table.symbols, rows)).as_dict()
    record = {"name": name, "bytes": size, "ratio": 4 * rows.size / size, "seconds": 0.0, **lost}
    return Copy(record, lambda: nn.Embedding.from_pretrained(torch.from_numpy(rows)))


def kdcode_copy(table: kdcode.VectorTable, times: int, effort: str, *, is_weighted: bool) -> Copy:
    """What `kdcode.compress` makes of the table for one size."""
    weights = 1 / (np.arange(len(table)) + ZIPF_OFFSET) if is_weighted else None
    started = time.perf_counter()
    coded = kdcode.compress(kdcode.as_table(table, weights=weights), f"{times}x", effort=effort)
    seconds = time.perf_counter() - started
    lost = compare_tables(table, coded).as_dict()
    setting = ("codebook_size", "code_length", "composition", "codebook_dtype", "rotation", "groups")
    used = coded.provenance["options"]
    record = {
        "name": f"kdcode, {times}x" + ("" if is_weighted else ", unweighted"),
        "bytes": coded.sizes.embedding,
        "ratio": coded.sizes.ratio(len(table), table.embedding_dim),
        "seconds": seconds,
        **lost,
        "shared_codes": coded.shared_codes,
        "setting": {key: used[key] for key in setting if key in used},
    }
    return Copy(record, lambda: kdcode.nn.CodedEmbedding(coded), is_trained_with=is_weighted)


def read_sentences(path: Path, rows: dict[str, int]) -> Sentences:
    """The sentences of a file as row numbers."""
    lines = [line.split() for line in path.read_text(encoding="latin-1").splitlines()]
    found = [[rows[word] for word in map(str.lower, words[1:]) if word in rows] for words in lines]
    return padded(found, [int(words[0]) for words in lines])


def padded(rows: list[list[int]], labels: list[int]) -> Sentences:
    """Sentences of different lengths as one matrix."""
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    real = torch.zeros(*ids.shape, 1)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.int64)
        real[number, : len(row)] = 1
    return Sentences(ids, real, torch.tensor(labels))


def made_sentences(count: int, seed: int) -> Sentences:
    """Five words each, from one of two parts of a small vocabulary: a task for tests."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, size=count)
    return padded((random.integers(0, 100, size=(count, 5)) + 100 * labels[:, None]).tolist(), labels.tolist())


def measure(copies: list[Copy], dim: int, tasks: dict[str, tuple[Sentences, Sentences]], seeds: int) -> None:
    """Add the accuracies to the records; the first copy is the full table."""
    for task, (training, test) in tasks.items():
        scores: list[dict[str, list[float]]] = [{"replaced": [], "trained": []} for _ in copies]
        for seed in range(seeds):
            full = train(copies[0].layer(), dim, training, seed)
            for copy, found in zip(copies, scores, strict=True):
                full.embedding = copy.layer()
                found["replaced"].append(accuracy(full, test))
                if copy is copies[0]:
                    found["trained"].append(found["replaced"][-1])
                elif copy.is_trained_with:
                    found["trained"].append(accuracy(train(copy.layer(), dim, training, seed), test))
                print(f"{task}, seed {seed}, {copy.record['name']}: {found['replaced'][-1]:.3f}", flush=True)
        for copy, found in zip(copies, scores, strict=True):
            for way, values in found.items():
                if values:
                    copy.record[f"{task}_{way}"] = statistics.mean(values)
                    copy.record[f"{task}_{way}_deviation"] = statistics.stdev(values) if seeds > 1 else 0.0


def read_table(glove: Path, rows: int) -> kdcode.VectorTable:
    """The most frequent words."""
    vectors = np.load(glove / "vectors.npy", mmap_mode="r")[:rows].astype(np.float32)
    return kdcode.VectorTable((glove / "symbols.txt").read_text(encoding="utf-8").split("\n")[: len(vectors)], vectors)


def main() -> None:
    """Measure everything, print it and write it down."""
    parser = argparse.ArgumentParser(description="Task accuracy with compressed embeddings.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy and symbols.txt")
    parser.add_argument("--tasks", type=Path, help="folder with trec/ and sst2/")
    parser.add_argument("--rows", type=int, default=50_000, help="how many of the most frequent words are used")
    parser.add_argument("--seeds", type=int, default=5, help="how many classifiers are trained for each copy")
    parser.add_argument("--effort", default="fast", help="of kdcode.compress")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tiny", action="store_true", help="200 words and made sentences, for tests")
    arguments = parser.parse_args()
    if arguments.tiny:
        from kdcode.data import glove_50d

        table, ratios, seeds = glove_50d().head(200), (4,), 1
        tasks = {"made": (made_sentences(200, 0), made_sentences(100, 1))}
    elif arguments.glove and arguments.tasks:
        table, ratios, seeds = read_table(arguments.glove, arguments.rows), RATIOS, arguments.seeds
        rows = {symbol: row for row, symbol in enumerate(table.symbols)}
        tasks = {
            task: tuple(read_sentences(arguments.tasks / file, rows) for file in files) for task, files in FILES.items()
        }
    else:
        parser.error("give --glove and --tasks, or --tiny")
    copies = [float32_rows(table), int8_rows(table)]
    copies += [
        kdcode_copy(table, times, arguments.effort, is_weighted=is_weighted)
        for is_weighted in (True, False)
        for times in ratios
    ]
    measure(copies, table.embedding_dim, tasks, seeds)
    records = [
        {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in copy.record.items()}
        for copy in copies
    ]
    settings = {
        "rows": len(table),
        "dimensions": table.embedding_dim,
        "effort": arguments.effort,
        "seeds": seeds,
        "weights": f"1 / (row + {ZIPF_OFFSET})",
        "sentences": {task: [len(part.labels) for part in parts] for task, parts in tasks.items()},
        "classifier": {"widths": WIDTHS, "filters": FILTERS, "dropout": DROPOUT, "epochs": EPOCHS, "batch": BATCH},
    }
    write_result(arguments.output, settings, records, ("numpy", "torch"))
    for record in records:
        print("  ".join(f"{key} {value}" for key, value in record.items() if key != "setting"))


if __name__ == "__main__":
    main()
