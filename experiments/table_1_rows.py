"""The rows of Table 1: the paper's seven, and those that are added to compare them with."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """What the embedding of a row is.

    Args:
        codes: who finds the codes, a key of `LEARNERS`, or "random"; None for a full table.
        composition: in the task: "linear", "lstm" or "shared-lstm" (`shared_lstm.py`); None for a full table.
    """

    codes: str | None = None
    composition: str | None = None


LEARNERS: dict[str, dict[str, Any]] = {
    "linear": {"learner": "straight-through", "composition": "linear", "start": "random"},
    "lstm": {"learner": "straight-through", "composition": "lstm", "start": "random"},
    "algorithm-1-linear": {"learner": "algorithm-1", "composition": "linear"},
    "algorithm-1-lstm": {"learner": "algorithm-1", "composition": "lstm"},
}
"""Options of those who learn codes. `straight-through` adds to the paper's Algorithm 1, which `algorithm-1` is."""

ROWS = {
    "conventional": Row(),
    "random-linear": Row("random", "linear"),
    "random-lstm": Row("random", "lstm"),
    "linear-linear": Row("linear", "linear"),
    "linear-lstm": Row("linear", "lstm"),
    "lstm-linear": Row("lstm", "linear"),
    "lstm-lstm": Row("lstm", "lstm"),
    "algorithm-1-linear-linear": Row("algorithm-1-linear", "linear"),
    "algorithm-1-lstm-lstm": Row("algorithm-1-lstm", "lstm"),
    "linear-shared-lstm": Row("linear", "shared-lstm"),
}
"""Code learner and composition in the task, as the paper names its rows; the last three are added."""

PAPER = {  # test perplexity and embedding parameters in millions: small, large
    "conventional": ((114.53, 2.0), (84.04, 15.0)),
    "random-linear": ((144.32, 0.1), (103.44, 0.4)),
    "random-lstm": ((147.13, 0.37), (119.62, 0.63)),
    "linear-linear": ((118.40, 0.1), (87.42, 0.4)),
    "linear-lstm": ((111.13, 0.37), (88.82, 0.63)),
    "lstm-linear": ((117.21, 0.1), (84.61, 0.4)),
    "lstm-lstm": ((111.31, 0.37), (85.37, 0.63)),
}
"""What the paper reports of its rows."""
BESIDE = {
    "algorithm-1-linear-linear": "linear-linear",
    "algorithm-1-lstm-lstm": "lstm-lstm",
    "linear-shared-lstm": "linear-lstm",
}
"""The paper's row that an added one is to be compared with."""
