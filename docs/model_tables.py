"""The tables of models whose embeddings are replaced: a sentence encoder and a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_tables import Record, error_cell, megabytes, rows_of, table

TOKEN_HEADS = ("token table", "model files", "relative error", "sentence cosine", "Spearman", "sentence recall@10")
CHANGED = {
    "input": "token table",
    "output": "output head",
    "both": "both",
    "output_corrected": "output head, corrected",
    "both_corrected": "both, corrected",
}
LANGUAGE_HEADS = ("perplexity (KL divergence)", "table", "relative error", *CHANGED.values())
WEIGHTS = {"zipf": "Zipf's law", "root of counts": "roots of counts", "counts": "counts"}


def sentence_rows(part: str) -> list[Record]:
    """The rows of one part of the benchmark of a sentence encoder."""
    return [row for row in rows_of("sentence_encoder") if row["part"] == part]


def _token_cells(row: Record) -> list[str]:
    return [
        megabytes(row["bytes"]),
        megabytes(row["file_bytes"]) if "file_bytes" in row else "",
        error_cell(row["relative_error"]),
        *(f"{row[key]:.3f}" for key in ("sentence_cosine", "similarity_spearman")),
        f"{row['sentence_recall_at_10']:.2f}",
    ]


def tokens() -> str:
    """A sentence encoder whose token table is replaced."""
    rows = sentence_rows("tokens")
    full, files = megabytes(rows[0]["full_bytes"]), megabytes(rows[0]["full_file_bytes"])
    cells = [["full table", full, files, "0", "1", "1", "1"]]
    by_size = sorted((row for row in rows if row["size"].endswith("x")), key=lambda row: float(row["ratio"]))
    cells += [[row["size"], *_token_cells(row)] for row in by_size]
    return table(["", *TOKEN_HEADS], cells)


def tokens_equal_bytes() -> str:
    """The same beside rows of small integers, in their bytes."""
    return table(["", *TOKEN_HEADS], _beside_peers(sentence_rows("tokens"), _token_cells))


def _beside_peers(rows: Sequence[Record], cells_of: Callable[[Record], list[str]]) -> list[list[str]]:
    """Each peer, and below it kdcode in its bytes."""
    cells = []
    for peer in (row for row in rows if row["size"] == "its own"):
        cells.append([peer["method"], *cells_of(peer)])
        cells += [
            [_kdcode_name(row, "in as many bytes"), *cells_of(row)]
            for row in rows
            if row["size"] == f"as {peer['method']}"
        ]
    return cells


def _kdcode_name(row: Record, size: str) -> str:
    return f"kdcode, {size}" + ("" if _way(row) == "none" else f", {_way(row)}")


def _way(row: Record) -> str:
    """How codes were learned, in words."""
    calibrated = ["calibrated"] if row["is_calibrated"] else []
    weighted = [] if row["weighting"] == "none" else [f"weighted by {WEIGHTS[row['weighting']]}"]
    return ", ".join(weighted + calibrated) or "none"


def _language_rows(part: str) -> list[Record]:
    return [row for row in rows_of("language_model_tables") if row["part"] == part]


def _like(row: Record, part: str) -> Record | None:
    """The row of another part with the same codes."""
    same = ("method", "size", "weighting", "is_calibrated")
    return next((one for one in _language_rows(part) if all(one[key] == row[key] for key in same)), None)


def _language_cells(row: Record) -> list[str]:
    return [megabytes(row["bytes"]), error_cell(row["relative_error"]), *_changed_cells(row)]


def _changed_cells(row: Record) -> list[str]:
    return [f"{row[f'{part}_perplexity']:.1f} ({_divergence(row[f'{part}_kl'])})" for part in CHANGED]


def _divergence(value: float) -> str:
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def language_model() -> str:
    """A language model whose token table, output head, or both are replaced."""
    rows = [row for row in _language_rows("copies") if row["size"].endswith("x")]
    rows.sort(key=lambda row: (not row["is_calibrated"], row["weighting"], row["ratio"]))
    perplexity = f"{rows[0]['original_perplexity']:.1f} (0)"
    full = [megabytes(round(rows[0]["bytes"] * rows[0]["ratio"])), "0", *([perplexity] * len(CHANGED))]
    cells = [["full table", *full], *([_kdcode_name(row, row["size"]), *_language_cells(row)] for row in rows)]
    return table(LANGUAGE_HEADS, cells)


def language_model_in_words() -> str:
    """What a language model loses at 20x, for the page on models."""
    rows = {(row["weighting"], row["is_calibrated"]): row for row in _language_rows("copies") if row["size"] == "20x"}
    plain, counted, calibrated = (rows[key] for key in (("none", False), ("counts", False), ("counts", True)))
    return (
        f"For SmolLM2-135M with token table and head at 20x, the perplexity on Penn Treebank goes from "
        f"{plain['original_perplexity']:.0f} to {plain['both_perplexity']:.0f} without weights, to\n"
        f"{counted['both_perplexity']:.0f} with token counts as `weights`, "
        f"to {counted['both_corrected_perplexity']:.0f} with a bias that corrects the head, "
        f"and to {calibrated['both_perplexity']:.0f} with codes calibrated for the head.\n"
    )


def language_model_equal_bytes() -> str:
    """The same beside rows of small integers, in their bytes."""
    return table(LANGUAGE_HEADS, _beside_peers(_language_rows("copies"), _language_cells))


def language_model_weights() -> str:
    """What weights do, on the validation text."""
    cells = [[_way(row), error_cell(row["relative_error"]), *_changed_cells(row)] for row in _language_rows("weights")]
    return table(["kdcode, 20x", *LANGUAGE_HEADS[2:]], cells)


def language_model_files() -> str:
    """The size of the files."""
    rows = sorted(_language_rows("files"), key=lambda row: float(row["ratio"]))
    cells = [["full table", megabytes(rows[0]["full_file_bytes"])]]
    cells += [[row["size"], megabytes(row["file_bytes"])] for row in rows]
    return table(["both coded", "model files"], cells)


def language_model_distilled() -> str:
    """What a short fine-tune of codewords wins back."""
    cells = []
    for row in _language_rows("distilled"):
        before = _like(row, "copies")
        if before is not None:
            cells.append([_kdcode_name(before, row["size"]), *_changed_cells(before)])
        cells.append([f"the same after {row['steps']} steps", *_changed_cells(row)])
    if not cells:
        return "This is not measured yet.\n"
    return table([LANGUAGE_HEADS[0], *LANGUAGE_HEADS[3:]], cells)


MODEL_PARTS: dict[str, Callable[[], str]] = {
    "tokens": tokens,
    "tokens_equal_bytes": tokens_equal_bytes,
    "language_model": language_model,
    "language_model_in_words": language_model_in_words,
    "language_model_equal_bytes": language_model_equal_bytes,
    "language_model_weights": language_model_weights,
    "language_model_files": language_model_files,
    "language_model_distilled": language_model_distilled,
}
