"""Results of the paper's experiments: the tables of pages, and a check that each says where it is from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_tables import ROOT, rows_of, table

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

from provenance import missing_keys
from runs import Record, runs_of, spread
from table_1 import records_of
from table_1_rows import BESIDE, PAPER

EXPERIMENTS = ROOT / "experiments"
BEFORE_PROVENANCE = frozenset(
    {
        *("clustering", "clustering_search", "code_space", "glove_codes", "learned_codes", "lightrnn"),
        *("link_prediction", "ptb_perplexity-large-trial", "ptb_perplexity-small", "ptb_perplexity-small-trial"),
        *("random_codes", "recommendation", "related", "temperature", "text_classification", "vary_k_d"),
    }
)
"""Results from before there was a rule. A name goes when its result is measured again; none is added."""
SHOWN = {
    "full table": "conventional",
    "random codes, linear": "random-linear",
    "codes of Algorithm 1, linear": "algorithm-1-linear-linear",
    "codes of Algorithm 1 with an LSTM, LSTM": "algorithm-1-lstm-lstm",
    "codes of `straight-through`, linear": "linear-linear",
    "codes of `straight-through`, LSTM": "linear-lstm",
}
IN_TASK = {
    "conventional": "full table",
    "conventional-dropout": "full table, dropout of word vectors",
    "post-hoc": "codes of that table, fixed; codewords learned, with code dropout",
    "learned": "codes learned from random",
    "learned-dropout": "codes learned from random, with code dropout",
    "begun": "codes learned, first those of the full table, with code dropout",
    "guided": "codes learned from random, pulled to the full table, with code dropout",
    "alongside": "codes learned from random, pulled to a full table alongside, with code dropout",
}


def unbacked(folder: Path = EXPERIMENTS / "results") -> Iterator[str]:
    """Results that do not say where they are from, with what they lack."""
    for path in sorted(folder.rglob("*.json")):
        missing = missing_keys(json.loads(path.read_text(encoding="utf-8")))
        if missing and path.stem not in BEFORE_PROVENANCE:
            yield f"{path.relative_to(folder)}: no {', no '.join(missing)}"


def perplexity() -> str:
    """The paper's language model."""
    found = records_of("small")
    lines = []
    for name, row in SHOWN.items():
        if row in found:
            test = spread(found[row], "test_perplexity")
            paper = PAPER[BESIDE.get(row, row)][0][0]
            lines.append(
                [name, f"{found[row][0]['embedding_parameters']:,}", test.shown(), str(test.count), f"{paper:.1f}"]
            )
    return table(["embedding", "parameters", "test perplexity", "seeds", "in the paper"], lines)


def learned_codes() -> str:
    """Perplexity of language models with codes that are learned inside them."""
    found: dict[str, list[Record]] = {row["row"]: [row] for row in rows_of("learned_codes", "experiments")}
    found |= runs_of("learned_codes")
    lines = []
    for name, words in IN_TASK.items():
        if name in found:
            row = found[name][0]
            train = f"{row['train_perplexity']:.1f}" if "train_perplexity" in row else "–"
            cells = [train, *(spread(found[name], f"{part}_perplexity").shown() for part in ("valid", "test"))]
            lines.append([words, f"{row['times_smaller']:.0f}x" if row["times_smaller"] > 1 else "–", *cells])
    return table(
        ["embedding of a small LSTM language model, Penn Treebank", "smaller", "train", "valid", "test"], lines
    )
