"""How well and how fast words can be matched with slots: the ways of `compact_code.py`, beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from compact_code import (
    CANDIDATES,
    Match,
    Scores,
    cost_excess,
    first_guess,
    learn_compact_code,
    match_dense,
    match_lines,
    match_nearest,
    match_priced,
)

import kdcode

EXACT = "dense, all slots"
PRICED = f"best {CANDIDATES} at fair prices"
MATCHES: dict[str, Match] = {
    EXACT: match_dense,
    PRICED: match_priced,
    f"best {CANDIDATES} by score": match_nearest,
    "rows and columns by turns": match_lines,
}
MOST_WORDS_TO_THE_END = 900
"""Up to this many words each way is also taken to the end, from both starts; beyond, only one matching is made."""


def compare_matchings(table: kdcode.VectorTable, seed: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every way on the first 900, the first 2,500 and all rows of a table.

    One matching is made under the first codewords of a warm start, from random slots. Its excess is the share by which
    the squared error is above that of the exact matching.
    """
    records = []
    for words in sorted({min(count, len(table)) for count in (900, 2500, len(table))}):
        vectors = np.asarray(table.matrix[:words], dtype=np.float64)
        slots, codewords = first_guess(vectors, round(words**0.5), seed=seed, start="warm")
        scores = Scores.of(vectors, codewords)
        exact = 0.0
        for name, match in MATCHES.items():
            started = time.process_time()
            total = scores.total(match(scores, slots))
            seconds = time.process_time() - started
            exact = total if name == EXACT else exact
            excess = cost_excess(vectors, codewords, total, exact)
            record = {"words": words, "match": name, "processor_seconds": round(seconds, 3), "excess": round(excess, 6)}
            for start in ("random", "warm") if words <= MOST_WORDS_TO_THE_END else ():
                found = learn_compact_code(vectors, seed=seed, start=start, match=match)
                record[f"error_from_{start}_start"] = round(found.rounds[-1]["relative_error"], 4)
                record[f"rounds_from_{start}_start"] = len(found.rounds)
            records.append(record)
            say(str(record))
    return records
