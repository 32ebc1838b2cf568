"""LightRNN, the compact special case K = √N, D = 2 with every slot used once, beside redundant KD codes of equal size.

    python experiments/lightrnn.py --data FOLDER --glove FOLDER --work FOLDER [--tables glove] [--skip-training]

Two tables of 10,000 rows are coded: GloVe 100d, and the embedding
that `ptb_perplexity.py` trained (its conventional row, in the work folder). The compact code is found by matching
words with slots (`compact_code.py`). Equal size is meant both ways: KD codes of the same K and D, whose slots may be
used more than once or not at all, and KD codes of the same bytes with more positions and fewer codewords for each.
Reconstruction is measured on both tables, and on the second the test perplexity of the shortened language model of
`shortened.py`, which compares with others of that recipe alone. Also measured is how well and how fast words can be
matched. Everything finished is kept in the work folder and not done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compact_code import (
    CANDIDATES,
    Floats,
    Ints,
    Scores,
    best_total,
    cost_excess,
    fit_codewords,
    learn_compact_code,
)
from conventional import conventional_table
from experiment import Experiment, kept
from figure import COLORS, panels
from language_model import SMALL_BFLOAT16, keep_freed_memory
from matchings import compare_matchings
from matplotlib.axes import Axes
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from reconstruction import read_table
from shortened import SHARE_OF_TEXT, SHORT, shortened_perplexity

import kdcode
from kdcode.codec import CodewordSpec, make_codec

ROWS = 10_000
TOLERANCE = 0.01
"""Equal bytes means within this share."""
COMPACT, RANDOM_SLOTS, SAME_SHAPE, SAME_BYTES = (
    "LightRNN",
    "LightRNN, random slots",
    "KD, same K and D",
    "KD, same bytes",
)
FULL = "full table"
KINDS = (RANDOM_SLOTS, COMPACT, SAME_SHAPE, SAME_BYTES)
TITLES = {"glove": "GloVe", "ptb": "PTB table"}


class Comparison:
    """The codes of one table, each learned once and kept.

    Args:
        name: of the table.
        table: N rows, N a square.
        folder: for codes and finished records.
        seed: of everything.
        tiny: whether learning is cut short.
        say: hears what is done.
    """

    def __init__(
        self,
        name: str,
        table: kdcode.VectorTable,
        folder: Path,
        *,
        seed: int,
        tiny: bool,
        say: Callable[[str], None],
    ) -> None:
        self.name, self.table, self.folder = name, table, folder
        self.seed, self.tiny, self.say = seed, tiny, say
        self.size = round(len(table) ** 0.5)
        folder.mkdir(parents=True, exist_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        """One record for each way to code the table."""
        rows = [
            self.row(RANDOM_SLOTS, "random-slots", self.random_slots),
            self.row(COMPACT, "compact", self.compact),
            *(self.kd_row(SAME_SHAPE, self.size, 2, start) for start in ("random", "warm")),
        ]
        target = rows[0]["embedding_bytes"]
        shapes = shapes_of_equal_bytes(target, len(self.table), self.table.embedding_dim)
        return rows + [self.kd_row(SAME_BYTES, size, length, "random") for size, length in shapes]

    def kd_row(self, name: str, size: int, length: int, start: str) -> dict[str, Any]:
        """KD codes, learned by the library's straight-through learner from a start."""
        few = {"epochs": 2} if self.tiny else {}

        def learn() -> kdcode.CodedTable:
            options = {"codebook_size": size, "code_length": length, "start": start, "seed": self.seed}
            coded = kdcode.compress(self.table, learner="straight-through", **options, **few)
            coded.provenance["seconds"] = coded.learning_seconds
            return coded

        return self.row(name, f"kd-{size}x{length}-{start}", learn)

    def row(self, name: str, stem: str, make: Callable[[], kdcode.CodedTable]) -> dict[str, Any]:
        """What came of one way to code the table."""
        coded = self.coded(stem, make)
        _, uses = np.unique(coded.codes, axis=0, return_counts=True)
        record = {
            "table": self.name,
            "row": name,
            "codes": stem,
            "codebook_size": coded.codebook_size,
            "code_length": coded.code_length,
            "embedding_bytes": coded.sizes.embedding,
            "ratio": round(coded.sizes.ratio(len(self.table), self.table.embedding_dim), 1),
            "relative_error": round(kdcode.evaluate(self.table, coded).relative_error, 4),
            "codes_used": len(uses),
            "most_words_of_a_code": int(uses.max()),
            "excess_at_most": coded.provenance.get("excess_at_most"),
            "seconds": coded.provenance["seconds"],
            "short_test_perplexity": None,
        }
        self.say(str(record))
        return record

    def coded(self, stem: str, make: Callable[[], kdcode.CodedTable] | None = None) -> kdcode.CodedTable:
        """The table coded one way, from the folder where it is there."""
        path = self.folder / f"{self.name}-{stem}.kdc"
        if make is not None and not path.exists():
            kdcode.save(make(), path)
        return kdcode.load(path)

    def random_slots(self) -> kdcode.CodedTable:
        """A compact code whose slots are dealt out at random."""
        slots = np.random.default_rng(self.seed).permutation(len(self.table))
        codewords = fit_codewords(self.vectors, slots, self.size)
        return self._to_coded(slots, codewords, {"seconds": 0.0})

    def compact(self) -> kdcode.CodedTable:
        """The compact code by matching."""
        started = time.monotonic()
        found = learn_compact_code(
            self.vectors, seed=self.seed, on_round=lambda record: self.say(f"{self.name}, matched: {record}")
        )
        scores = Scores.of(self.vectors, found.codewords)
        total = scores.total(found.slots)
        provenance = {
            "seconds": round(time.monotonic() - started, 1),
            "rounds": found.rounds,
            "excess_at_most": round(cost_excess(self.vectors, found.codewords, total, best_total(scores)), 6),
        }
        return self._to_coded(found.slots, found.codewords, provenance)

    @property
    def vectors(self) -> Floats:
        """(N, d) float64."""
        return np.asarray(self.table.matrix, dtype=np.float64)

    def _to_coded(self, slots: Ints, codewords: Floats, provenance: dict[str, Any]) -> kdcode.CodedTable:
        codes = np.stack([slots // self.size, slots % self.size], axis=1)
        spec = CodewordSpec.named("linear", self.table.embedding_dim, self.size, 2)
        codec = make_codec(spec, {"codebook": codewords})
        return kdcode.CodedTable.from_codes(self.table.symbols, codes, codec, provenance)


def shapes_of_equal_bytes(target: int, num_embeddings: int, embedding_dim: int) -> list[tuple[int, int]]:
    """(K, D) with D above 2 of KD codes that take as many bytes: for each size of a code the one with most codes."""
    best: dict[int, tuple[int, int]] = {}
    for length in range(3, 65):
        for size in range(2, 257):
            sizes = CodewordSpec.named("linear", embedding_dim, size, length).sizes(num_embeddings)
            if abs(sizes.embedding - target) <= TOLERANCE * target:
                other = best.get(sizes.codes)
                if other is None or size**length > other[0] ** other[1]:
                    best[sizes.codes] = size, length
    return [best[code_bytes] for code_bytes in sorted(best)]


class ShortenedModel:
    """Perplexities of the shortened language model with the codes of a comparison, each kept.

    Args:
        comparison: over the language model's words.
        corpus: its text.
        work: folder of all scripts that resume.

    Attributes:
        seconds: that the runs asked for took, now or before.
    """

    def __init__(self, comparison: Comparison, corpus: Corpus, work: Path) -> None:
        self.comparison, self.corpus, self.work = comparison, corpus, work
        self.seconds = 0.0

    def perplexity(self, stem: str | None) -> float:
        """Test perplexity with the codes of that name, or with a full table, as `vary_k_d.py` has measured it."""
        seed = self.comparison.seed
        path = self.comparison.folder / f"{stem}.json" if stem else self.work / f"vary_k_d-seed{seed}" / "full.json"

        def measure() -> dict[str, Any]:
            coded = self.comparison.coded(stem) if stem else None
            codes, size = (coded.codes, coded.codebook_size) if coded else (None, 0)
            checkpoint = path.with_suffix(".pt")
            tiny = self.comparison.tiny
            record = shortened_perplexity(codes, size, self.corpus, seed=seed, checkpoint=checkpoint, tiny=tiny)
            checkpoint.unlink(missing_ok=True)
            return record

        record = kept(path, measure)
        self.seconds += float(record["seconds"])
        self.comparison.say(f"{stem or FULL}: test perplexity {record['perplexity']}")
        return float(record["perplexity"])

    def complete(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows with the perplexities of those that are compared, and one more for the full table.

        Of the two starts, and of the shapes of equal bytes, the one with the lowest error is trained.
        """
        for name in KINDS:
            row = best_of(rows, name)
            row["short_test_perplexity"] = self.perplexity(row["codes"])
        table = self.comparison.table
        full = dict.fromkeys(rows[0]) | {"table": rows[0]["table"], "row": FULL, "ratio": 1.0, "relative_error": 0.0}
        full["embedding_bytes"] = 4 * len(table) * table.embedding_dim
        full["short_test_perplexity"] = self.perplexity(None)
        return [full, *rows]


def best_of(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The row of a kind with the lowest error."""
    return min((row for row in rows if row["row"] == name), key=lambda row: row["relative_error"])


def draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Error on every table, and perplexity where it was measured, for the best row of each kind."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    perplexity = {row["row"]: row["short_test_perplexity"] for row in rows if row["short_test_perplexity"]}
    with panels(path, len(tables) + bool(perplexity)) as axes:
        for axis, table in zip(axes, tables, strict=False):
            best = [best_of([row for row in rows if row["table"] == table], kind) for kind in KINDS]
            labels = [f"{row['row']}\nK={row['codebook_size']}, D={row['code_length']}" for row in best]
            _bars(axis, labels, [row["relative_error"] for row in best], "%.3f")
            title = f"{TITLES[table]}, {best[0]['embedding_bytes'] // 1000} kB"
            axis.set(xlabel="relative error of the table", title=title)
        if perplexity:
            kinds = [*KINDS, FULL]
            _bars(axes[-1], kinds, [perplexity[kind] for kind in kinds], "%.1f")
            axes[-1].set(xlabel="test perplexity, shortened recipe", title="Language model")


def _bars(axis: Axes, labels: list[str], values: list[float], form: str) -> None:
    bars = axis.barh(labels, values, color=(COLORS[5], COLORS[1], COLORS[3], COLORS[0], COLORS[2]), height=0.6)
    axis.bar_label(bars, fmt=form, padding=3)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.margins(x=0.18)


def read_tables(experiment: Experiment) -> tuple[dict[str, kdcode.VectorTable], Corpus | None]:
    """The tables that are asked for, and the text of the language model."""
    arguments = experiment.arguments
    wanted = ("glove", "ptb") if arguments.tables == "both" else (arguments.tables,)
    tables: dict[str, kdcode.VectorTable] = {}
    corpus = None
    if "glove" in wanted:
        tables["glove"] = read_table(None, 400) if arguments.tiny else read_table(arguments.glove, ROWS)
    if "ptb" in wanted and arguments.tiny:
        corpus = made_up_corpus(words=196)
        values = np.random.default_rng(0).normal(size=(len(corpus.words), 16)).astype(np.float32)
        tables["ptb"] = kdcode.VectorTable(corpus.words, values)
    elif "ptb" in wanted:
        corpus = read_corpus(arguments.data)
        folder = experiment.work / f"small-seed{arguments.seed}"
        tables["ptb"] = conventional_table(corpus, SMALL_BFLOAT16, seed=arguments.seed, folder=folder)
    return tables, corpus


def main() -> None:
    """Code the tables in every way, train the language models, and write, print and draw what came of it."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    experiment.parser.add_argument("--glove", type=Path, help="folder with vectors.npy and symbols.txt of GloVe 100d")
    experiment.parser.add_argument("--tables", choices=("both", "glove", "ptb"), default="both", help="what to code")
    experiment.parser.add_argument("--skip-training", action="store_true", help="leave the language models out")
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    if arguments.tables != "ptb" and arguments.glove is None and not arguments.tiny:
        experiment.parser.error("give --glove, or --tables ptb")
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    tables, corpus = read_tables(experiment)
    folder = experiment.work / f"lightrnn-seed{arguments.seed}"
    rows: list[dict[str, Any]] = []
    seconds = 0.0
    for name, table in tables.items():
        comparison = Comparison(name, table, folder, seed=arguments.seed, tiny=arguments.tiny, say=experiment.say)
        found = comparison.rows()
        if name == "ptb" and corpus and not arguments.skip_training:
            model = ShortenedModel(comparison, corpus, experiment.work)
            found = model.complete(found)
            seconds += model.seconds
        rows += found
    name, table = next(iter(tables.items()))
    matchings = kept(
        folder / f"matchings-{name}.json", lambda: {"rows": compare_matchings(table, arguments.seed, experiment.say)}
    )["rows"]
    settings = {"candidates": CANDIDATES, "tolerance_of_bytes": TOLERANCE, "table_of_matchings": name}
    settings |= {"recipe": asdict(SHORT), "share_of_text": SHARE_OF_TEXT}
    seconds += sum(row["seconds"] or 0.0 for row in rows)
    experiment.write(settings, rows, packages=("numpy", "scipy", "torch"), matchings=matchings, seconds=seconds)
    draw(experiment.figure_path(), rows)
    show(rows, matchings)


def show(rows: list[dict[str, Any]], matchings: list[dict[str, Any]]) -> None:
    """Print the result."""
    for row in rows:
        shape = f"K={row['codebook_size']} D={row['code_length']}" if row["codes"] else ""
        print(
            f"{row['table']:<6} {row['row']:<24} {shape:<12} {row['embedding_bytes']:>9,} bytes  "
            f"error {row['relative_error']:.4f}  codes used {row['codes_used']}  "
            f"perplexity {row['short_test_perplexity']}"
        )
    for record in matchings:
        print(
            f"{record['words']:>6} words, {record['match']:<26} {record['processor_seconds']:8.2f} s  "
            f"{100 * record['excess']:.3f}% above the exact matching's cost"
        )


if __name__ == "__main__":
    main()
