"""The tables of in-task.md: codes that are learned inside a task."""

from __future__ import annotations

from collections.abc import Callable

from markdown_tables import rows_of, table

LAYERS = {
    "query": '`KDEmbedding`, `assignment="query"`',
    "free": '`KDEmbedding`, `assignment="free"`',
    "full table": "`nn.Embedding(sparse=True)`, SparseAdam",
    "free, dense": '`assignment="free"`, Adam of torch, dense gradients',
}
MODELS = {
    "conventional": "full table",
    "conventional-dropout": "full table, dropout of word vectors",
    "post-hoc": "codes of that table, fixed; codewords learned, with code dropout",
    "learned": "codes learned from random",
    "learned-dropout": "codes learned from random, with code dropout",
    "begun": "codes learned, first those of the full table, with code dropout",
    "guided": "codes learned from random, pulled to the full table, with code dropout",
    "alongside": "codes learned from random, pulled to a full table alongside, with code dropout",
}


def step_cost() -> str:
    """Time of a step against the number of symbols."""
    rows = rows_of("step_cost")
    counts = sorted({row["symbols"] for row in rows})
    found = {(row["layer"], row["symbols"]): row for row in rows}
    lines = []
    for layer, name in LAYERS.items():
        cells = [found.get((layer, count)) for count in counts]
        times = ["–" if cell is None else f"{cell['ms']:.1f} ms" for cell in cells]
        last = [cell for cell in cells if cell is not None][-1]
        lines.append([name, *times, f"{last['ratio']:.2f}"])
    heads = ["a step of 1,024 ids, one thread", *(f"{count:,} symbols" for count in counts), "last / first"]
    return table(heads, lines)


def learned_codes() -> str:
    """Perplexity of language models with codes that are learned inside them."""
    found = {row["row"]: row for row in rows_of("learned_codes", "experiments")}
    lines = []
    for name, words in MODELS.items():
        if name in found:
            row = found[name]
            cells = [f"{row['valid_perplexity']:.1f}", f"{row['test_perplexity']:.1f}"]
            lines.append([words, f"{row['times_smaller']:.0f}x" if row["times_smaller"] > 1 else "–", *cells])
    return table(["embedding of a small LSTM language model, Penn Treebank", "smaller", "valid", "test"], lines)


IN_TASK_PARTS: dict[str, Callable[[], str]] = {"step_cost": step_cost, "learned_codes": learned_codes}
