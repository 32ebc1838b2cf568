"""Tables of the pages from the comparison at equal bytes: all methods, and who loses least where."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from markdown_tables import measured_rows, rows_of, table

OURS = "kdcode"
LIMIT = "Gaussian limit"
METHODS = (
    *("kdcode", "kdcode, fast", "kdcode, best", "entropy-coded scalar"),
    *("faiss LSQ", "faiss RQ", "faiss OPQ", "faiss PQ", "TurboQuant", "RaBitQ"),
    *("int4 rows", "int8 rows", "SVD, float16", LIMIT),
)
TABLES = {
    "glove-50k": "50,000 words of GloVe",
    "glove-100k": "100,000 words of GloVe",
    "minilm": "tokens of MiniLM",
    "smollm2": "tokens of SmolLM2",
}
Errors = dict[tuple[str, str, int], float]
"""By table, method and how many times smaller."""


def _errors() -> Errors:
    return {
        (row["table"], row["method"], row["times"]): row["relative_error"]
        for row in rows_of("equal_bytes")
        if row["bytes"] is not None
    }


def _minutes() -> Errors:
    """After how many minutes a method was given up, where it was."""
    return {
        (row["table"], row["method"], row["times"]): row["unfinished_minutes"]
        for row in rows_of("equal_bytes")
        if "unfinished_minutes" in row
    }


def _found(names: Sequence[str], among: set[str]) -> list[str]:
    return [name for name in names if name in among]


def _sizes(errors: Errors) -> list[int]:
    return sorted({times for _, _, times in errors})


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if value < 0.0995 else f"{value:.3f}"


def equal_bytes() -> str:
    """Errors of every method at each size, a table for each table; the least of a column, but the limit, is bold."""
    errors, minutes = _errors(), _minutes()
    sizes, parts = _sizes(errors), []
    for name in _found(list(TABLES), {one for one, _, _ in errors}):
        least = {
            times: min(error for (one, method, size), error in errors.items() if _is_in(one, method, size, name, times))
            for times in sizes
            if any(_is_in(*key, name, times) for key in errors)
        }
        lines = []
        for method in _found(METHODS, {method for one, method, _ in {**errors, **minutes} if one == name}):
            cells = []
            for times in sizes:
                error, given_up = (found.get((name, method, times)) for found in (errors, minutes))
                cell = _cell(error) if given_up is None else f"> {given_up:.0f} min"
                cells.append(f"**{cell}**" if error is not None and error == least.get(times) else cell)
            lines.append([method, *cells])
        parts.append(table([TABLES[name], *(f"{each}x" for each in sizes)], lines))
    return "\n".join(parts)


def _is_in(one: str, method: str, size: int, name: str, times: int) -> bool:
    return (one, size) == (name, times) and method != LIMIT


def best_at_equal_bytes() -> str:
    """Who loses least: kdcode, the best of the others by name, and the limit, for each table and size."""
    errors = _errors()
    sizes, lines = _sizes(errors), []
    for name in _found(list(TABLES), {one for one, _, _ in errors}):
        ours, theirs, limits = [], [], []
        for times in sizes:
            own, other = (_least(errors, name, times, is_ours=is_ours) for is_ours in (True, False))
            is_first = own is not None and (other is None or own[0] < other[0])
            ours.append("–" if own is None else f"**{_cell(own[0])}**" if is_first else _cell(own[0]))
            theirs.append("–" if other is None else f"{_cell(other[0])} {other[1]}")
            limits.append(_cell(errors.get((name, LIMIT, times))))
        lines += [[f"{TABLES[name]}: kdcode", *ours], ["best of the others", *theirs]]
        lines += [[LIMIT, *limits]] if any(limit != "–" for limit in limits) else []
    return table(["", *(f"{each}x" for each in sizes)], lines)


def _least(errors: Errors, name: str, times: int, *, is_ours: bool) -> tuple[float, str] | None:
    found = (
        (error, method)
        for (one, method, size), error in errors.items()
        if _is_in(one, method, size, name, times) and method.startswith(OURS) == is_ours
    )
    return min(found, default=None)


def best_at_equal_bytes_in_words() -> str:
    """What README says of who is best where, with the numbers of 50,000 words of GloVe."""
    errors = _errors()
    cells = [(name, times) for name in TABLES for times in _sizes(errors) if _least(errors, name, times, is_ours=True)]
    behind, shown = [], []
    for name, times in cells:
        own, other = (_least(errors, name, times, is_ours=is_ours) for is_ours in (True, False))
        assert own is not None  # noqa: S101 - cells are those that we have
        if other is not None and other[0] <= own[0]:
            behind.append(f"{TABLES[name]} at {times}x ({other[1]})")
        if name == "glove-50k" and other is not None:
            shown.append(f"{_cell(own[0])} at {times}x (best other: {other[1]}, {_cell(other[0])})")
    count = len(cells)
    whole = f"at all {count} sizes" if not behind else f"at {count - len(behind)} of {count} sizes"
    rest = f", but not for {'; '.join(behind)}" if behind else ""
    tables = len({name for name, _ in cells})
    text = (
        f"**At equal bytes kdcode loses least {whole} of {tables} tables**{rest}. Relative errors for "
        f"{TABLES['glove-50k']}: {', '.join(shown)}. [docs/benchmarks.md](docs/benchmarks.md) has all methods, times, "
        "and the paper's experiments."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def transform_codes() -> str:
    """Unseen rows of transform codes, and how long rows take."""
    heads = ["size", "effort", "compressed in", "error on seen rows", "on unseen rows"]
    heads += ["a row read in", "rows coded per second"]
    rows = []
    for row in measured_rows("transform_codes"):
        errors = [_cell(row[key]) for key in ("seen_error", "unseen_error")]
        speeds = [f"{row['microseconds_per_row']:.2f} µs", f"{row['coded_per_second']:,.0f}"]
        rows.append([row["size"], row["effort"], f"{row['seconds']:.0f} s", *errors, *speeds])
    return table(heads, rows)


EQUAL_BYTES_PARTS: dict[str, Callable[[], str]] = {
    "equal_bytes": equal_bytes,
    "best_at_equal_bytes": best_at_equal_bytes,
    "best_at_equal_bytes_in_words": best_at_equal_bytes_in_words,
    "transform_codes": transform_codes,
}
