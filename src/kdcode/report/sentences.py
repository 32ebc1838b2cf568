"""The report in words: the verdict, what each number means, where bytes go."""

from __future__ import annotations

from collections.abc import Iterator

from kdcode.evaluation import Evaluation, Measures
from kdcode.report.explorer import Explored
from kdcode.report.measured import Measured
from kdcode.wording import percent, shared_codes

_GRADES = (
    (0.9, "good", "nearly everything is kept"),
    (0.7, "good", "most is kept"),
    (0.45, "fair", "the rough picture is kept, and many neighbours have changed; test it on your task"),
    (0.0, "poor", "much is lost; use it only if your own test says that it is good enough"),
)
"""By the least recall@10: a grade, and what is said."""

RULE = (
    "The verdict goes by the share of nearest neighbours that are the same: 90% and more, 70%, 45%, or less. It cannot "
    "know your task."
)

Row = dict[str, object]


def grade(found: Evaluation) -> str:
    """One of good, fair and poor."""
    return next(name for least, name, _ in _GRADES if found.recall_at_10 >= least)


def verdict(measured: Measured) -> str:
    """What somebody has to know who reads one sentence."""
    found, about = measured.found, measured.about
    words = next(words for least, _, words in _GRADES if found.recall_at_10 >= least)
    near = min(10, len(measured.pairs) - 1)
    kept = f"keeps {percent(found.recall_at_10)} of the {near} nearest neighbours" if near else "has one row"
    return f"{about.compressed} is {times(measured.ratio)} than {about.original} and {kept}: {words}."


def times(ratio: float) -> str:
    """A ratio of sizes in words."""
    return f"{ratio:.1f} times smaller" if ratio >= 1 else f"{1 / ratio:.1f} times larger"


def headline_figures(measured: Measured) -> Iterator[Row]:
    """The few large numbers under the verdict."""
    found = measured.found
    yield {"value": f"{measured.ratio:.1f}×", "label": "smaller, with its symbols"}
    yield {"value": percent(found.recall_at_10), "label": "of nearest neighbours kept (recall@10)"}
    yield {"value": f"{found.mean_cosine:.3f}", "label": "mean cosine between a vector and its copy"}
    yield {"value": f"{found.relative_error:.3f}", "label": "relative error, 0 is a perfect copy"}


def compared(measured: Measured) -> str:
    """Which rows were compared."""
    match, about = measured.found.match, measured.about
    dim = measured.pairs.embedding_dim
    if not match.by_symbol:
        return f"{match.rows:,} rows of {dim:,} numbers were compared, row by row, since there are no symbols to match. {RULE}"
    if match.is_complete:
        return f"All {match.rows:,} symbols, with vectors of {dim:,} numbers, were compared. {RULE}"
    return (
        f"The {match.rows:,} symbols that both tables have, with vectors of {dim:,} numbers, were compared. "
        f"{match.only_in_original:,} are only in {about.original} and {match.only_in_copy:,} only in "
        f"{about.compressed}. {RULE}"
    )


def sampled(found: Evaluation, rows: int) -> str:
    """What was looked at where not everything was."""
    seen = found.sampling
    queries = "all rows" if seen.queries >= rows else f"{seen.queries:,} rows"
    return (
        f"Errors and cosines are those of all {rows:,} rows. Nearest neighbours were looked for among all rows, for "
        f"{queries}; similarities are those of {seen.pairs:,} pairs. The sample follows from seed {seen.seed}."
    )


def size_rows(measured: Measured) -> list[Row]:
    """Where the bytes are, before and after."""
    copy, after, sizes = measured.pairs.tables[1], measured.bytes_after, measured.sizes
    floats = 4 * len(copy) * copy.embedding_dim
    shape = f"{len(copy):,} rows of {copy.embedding_dim:,} float32 numbers"
    symbols = [_size("symbols", measured.symbol_bytes, measured.bytes_before, "their names")] if measured.symbol_bytes else []
    rows = [_size("before", measured.bytes_before, None, ""), _size("vectors", floats, measured.bytes_before, shape), *symbols]
    rows.append(_size("after", after, None, "" if measured.about.file_bytes is None else "the file"))
    if sizes is None:
        return rows
    parts = (
        ("codes", sizes.codes, "what is kept of each row"),
        ("codebook", sizes.codebook, "the vectors that all rows share"),
        ("composition", sizes.composition, "what makes a vector of codewords: basis, LSTM, scales"),
        ("symbols", sizes.symbols, "their names, compressed"),
        ("overhead", after - sizes.total, "header and digests"),
    )
    return rows + [_size(name, size, after, meaning) for name, size, meaning in parts if size > 0]


def _size(name: str, size: int, of: int | None, meaning: str) -> Row:
    share = "" if of is None else f"{size / max(of, 1):.1%}"
    return {"kind": "whole" if of is None else "part", "name": name, "bytes": f"{size:,}", "share": share, "meaning": meaning}


def quality_rows(measured: Measured) -> Iterator[Row]:
    """Every measure with its value and what it means."""
    found, count = measured.found, len(measured.pairs)
    yield from _measures(found, count, "")
    if found.weighted is not None:
        weighted = found.weighted
        yield _quality("relative error, weighted", f"{weighted.relative_error:.4f}", "the same with every row counted by its weight")
        yield _quality("mean cosine, weighted", f"{weighted.mean_cosine:.4f}", "the same with every row counted by its weight")
        yield _quality("recall@10, weighted", f"{weighted.recall_at_10:.4f}", "the same for rows drawn by their weight")
    coded = measured.coded
    if coded is not None:
        text = shared_codes(coded.shared_codes, len(coded), measured.what)
        yield _quality("shared codes", f"{coded.shared_codes:,}", f"{text}; such {measured.what} have the same vector")


def _measures(found: Measures, count: int, suffix: str) -> Iterator[Row]:
    error, low = found.relative_error, found.cosine_percentiles
    yield _quality(
        f"relative error{suffix}", f"{error:.4f}",
        f"{error:.1%} of the variance is lost: 0 is a perfect copy, 1 is the mean vector for every row",
    )  # fmt: skip
    yield _quality(f"mean cosine{suffix}", f"{found.mean_cosine:.4f}", "how near the direction of a vector is to the original's, 1 is the same")
    yield _quality("cosine, 5th percentile", f"{low[5]:.4f}", "19 of 20 rows are at least as near to their originals as this")
    yield _quality("error of lengths", f"{found.norm_error:.4f}", f"vectors are {found.norm_error:.1%} longer or shorter than they were, on average")
    for near, recall in ((1, found.recall_at_1), (10, found.recall_at_10), (100, found.recall_at_100)):
        if count > near:
            whose = "the nearest neighbour is" if near == 1 else f"of the {near} nearest neighbours are"
            text = f"in {percent(recall)} of cases {whose} the same" if near == 1 else f"{percent(recall)} {whose} the same"
            yield _quality(f"recall@{near}", f"{recall:.4f}", text)
    if count > 2:
        yield _quality("rank correlation", f"{found.rank_correlation:.4f}", "whether pairs that were more similar than others still are: 1 is the same order, 0 is none")


def _quality(name: str, value: str, meaning: str) -> Row:
    return {"name": name, "value": value, "meaning": meaning}


def explorer_note(measured: Measured, rows: Explored) -> str:
    """Which rows the explorer has."""
    what = measured.what
    if rows.is_all:
        return f"All {rows.of:,} {what} are in this page."
    which = "with the largest weights" if rows.by_weight else "that come first in the table, which is usually sorted by frequency"
    return (
        f"This page has the {len(rows.places):,} {what} {which}, of {rows.of:,}. Neighbours, shared codes and the tree "
        f"are those among these; all numbers above are of the whole table."
    )


NO_CURVE = (
    "No learning curve: the file does not record how the error fell while its codes were learned, or nothing was learned "
    "step by step."
)
NO_CODEWORDS = (
    "This table has no codewords that its rows share, so there is no use of them to count, and no tree of codes below. "
    "All other parts of the report are as usual."
)
TREE = (
    "Codes that begin alike, walked position by position: choose a codeword to see which symbols have it, and how their "
    "codes go on."
)
NO_TREE = "The rows of this table do not point to codewords, so there is no tree of codes and no code that two symbols share."
WORST = "The rows whose vectors point farthest away from their originals. Look whether your task needs them."


def size_sentence(measured: Measured) -> str:
    """Bytes before and after, in one sentence."""
    sizes, copy = measured.sizes, measured.pairs.tables[1]
    whole = f"{measured.bytes_before:,} bytes became {measured.bytes_after:,}: {times(measured.ratio)}."
    if sizes is None:
        return whole
    alone = times(sizes.ratio(len(copy), copy.embedding_dim))
    bits = 8 * sizes.codes / len(copy)
    return f"{whole} Without symbols and header it is {alone}; a row takes {bits:,.0f} bits instead of {32 * copy.embedding_dim:,}."


def use_words(measured: Measured) -> str:
    """How codewords are used, in a sentence; empty without codewords."""
    use = measured.use
    if use is None:
        return ""
    unused, every = int(use.unused.sum()), use.counts.size
    none = "Every codeword is used" if not unused else f"{unused:,} of {every:,} codewords are not used"
    return (
        f"{none}. Used equally often, the codewords of a row could tell {use.bits:.1f} bits; as they are used, they tell "
        f"{use.entropy:.1f} at most."
    )


def shape_facts(measured: Measured) -> Iterator[tuple[str, str]]:
    """The shape of the compressed table, by name."""
    copy, coded = measured.pairs.tables[1], measured.coded
    yield "rows", f"{len(copy):,}"
    yield "dimensions", f"{copy.embedding_dim:,}"
    if coded is None:
        return
    spec = coded.spec
    yield "composition", spec.composition + (", rotated" if spec.is_rotated else "")
    if spec.has_codebooks:
        yield "code", f"{spec.code_length} codewords (D), each one of {spec.codebook_size} (K)"
        yield "codewords", f"{spec.codeword_dim} numbers as {spec.codebook_dtype}"
    if spec.scale_bits:
        yield "scale of rows", f"{spec.scale_bits} bits"
