"""The report in words: the verdict, what each number means, which rows are in the page."""

from __future__ import annotations

from collections.abc import Iterator

from kdcode.codec import CodewordSpec
from kdcode.evaluation import Evaluation, LevelUse
from kdcode.report.explorer import Explored
from kdcode.report.measured import AFTER, Measured
from kdcode.wording import percent, shared_codes

_GRADES = (
    (0.9, "good", "nearly everything is kept"),
    (0.7, "good", "most is kept"),
    (0.45, "fair", "the rough picture is kept, and many neighbours have changed; test it on your task"),
    (0.0, "poor", "much is lost; use it only if your own test says that it is good enough"),
)
"""By the least recall@10: a grade, and what is said."""

RULE = "The verdict goes by recall@10 alone, in steps at 90%, 70% and 45%; it cannot know your task."
NOT_LEARNED = "No learning curve: transform codes follow from the table's covariance, and are not learned step by step."
NO_CURVE = "No learning curve: the file does not record how the error fell while its codes were learned."
ONE_STEP = "No learning curve: the codes were learned in one step."
NO_CODEWORDS = (
    "This table has no codewords that its rows share, so there is no use of them to count, and no tree of codes below. "
    "All other parts of the report are as usual."
)
TREE = (
    "Codes that begin alike, walked position by position: choose a codeword to see which symbols have it, and how "
    "their codes go on."
)
LEVEL_TREE = (
    "Codes that begin alike, walked coordinate by coordinate; where the table is rotated, the one with the largest "
    "variance comes first. Choose a level to see which symbols have it, and how their codes go on."
)
NO_TREE = "The rows of this table do not point to codewords: there is no tree of codes."
WORST = "The rows whose vectors point farthest away from their originals. Look whether your task needs them."

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
    return f"{about.compressed} is {times(measured.ratio)} than {about.original} in float32 and {kept}: {words}."


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
    vectors = f"with vectors of {measured.pairs.embedding_dim:,} numbers"
    if not match.by_symbol:
        told = f"{match.rows:,} rows {vectors} were compared one by one, since there are no symbols to match."
    elif match.is_complete:
        told = f"All {match.rows:,} symbols, {vectors}, were compared."
    else:
        told = (
            f"The {match.rows:,} symbols that both tables have, {vectors}, were compared. {match.only_in_original:,} "
            f"are only in {about.original} and {match.only_in_copy:,} only in {about.compressed}."
        )
    return f"{told} {RULE}"


def sampled(found: Evaluation, rows: int) -> str:
    """What was looked at where not everything was."""
    seen = found.sampling
    queries = "all rows" if seen.queries >= rows else f"{seen.queries:,} rows"
    return (
        f"Errors and cosines are those of all {rows:,} rows. Nearest neighbours were looked for among all rows, for "
        f"{queries}; similarities are those of {seen.pairs:,} pairs. The sample follows from seed {seen.seed}."
    )


def size_sentence(measured: Measured) -> str:
    """Bytes before and after, in one sentence."""
    sizes, copy = measured.sizes, measured.pairs.tables[1]
    whole = f"{measured.bytes_before:,} bytes became {measured.bytes_after:,}: {times(measured.ratio)}."
    if sizes is None:
        return whole
    alone = times(sizes.ratio(len(copy), copy.embedding_dim))
    row = f"a row takes {8 * sizes.codes / len(copy):,.0f} bits instead of {32 * copy.embedding_dim:,}"
    return f"{whole} Without symbols and header it is {alone}; {row}."


def size_rows(measured: Measured) -> Iterator[Row]:
    """Where the bytes are, before and after."""
    table = ""
    for part in measured.size_parts:
        whole = measured.bytes_after if part.table == AFTER else measured.bytes_before
        if part.table != table:
            table = part.table
            yield {"kind": "whole", "name": table, "bytes": f"{whole:,}", "share": "", "meaning": ""}
        share = f"{part.bytes / max(whole, 1):.1%}"
        yield {"kind": "part", "name": part.part, "bytes": f"{part.bytes:,}", "share": share, "meaning": part.meaning}


def quality_rows(measured: Measured) -> Iterator[Row]:
    """Every measure with its value and what it means."""
    found, coded = measured.found, measured.coded
    for name, value, meaning in _measures(found, len(measured.pairs)):
        yield {"name": name, "value": f"{value:.4f}", "meaning": meaning}
    if found.weighted is not None:
        by_weight = "the same with every row counted by its weight"
        for name in ("relative_error", "mean_cosine", "recall_at_10"):
            called = name.replace("_at_", "@").replace("_", " ")
            yield {"name": f"{called}, weighted", "value": f"{getattr(found.weighted, name):.4f}", "meaning": by_weight}
    if coded is not None and coded.codewords is not None:
        told = shared_codes(coded.shared_codes, len(coded), measured.what)
        meaning = f"{told}; such {measured.what} have the same vector" if coded.shared_codes else told
        yield {"name": "shared codes", "value": f"{coded.shared_codes:,}", "meaning": meaning}


def _measures(found: Evaluation, count: int) -> Iterator[tuple[str, float, str]]:
    error, lengths = found.relative_error, found.norm_error
    lost = f"{error:.1%} of the variance is lost: 0 is a perfect copy, 1 is the mean vector for every row"
    yield "relative error", error, lost
    yield "mean cosine", found.mean_cosine, "how near the direction of a vector is to the original's; 1 is the same"
    yield "cosine, 5th percentile", found.cosine_percentiles[5], "19 of 20 rows are at least as near as this"
    yield "error of lengths", lengths, f"vectors are {lengths:.1%} longer or shorter than they were, on average"
    if count > 1:
        nearest = found.recall_at_1
        yield "recall@1", nearest, f"in {percent(nearest)} of cases the nearest neighbour is the same"
    for near, recall in ((10, found.recall_at_10), (100, found.recall_at_100)):
        if count > near:
            yield f"recall@{near}", recall, f"{percent(recall)} of the {near} nearest neighbours are the same"
    if count > 2:
        order = "whether pairs that were more similar than others still are: 1 is the same order, 0 is none"
        yield "rank correlation", found.rank_correlation, order


def use_words(measured: Measured) -> str:
    """How codewords or levels are used, in a sentence; empty without either."""
    use = measured.use
    if use is None:
        return ""
    if isinstance(use, LevelUse):
        return (
            f"Each coordinate of a row has a level, a multiple of the step. The levels of a row are worth "
            f"{use.entropy:.1f} bits if coordinates are taken one by one; it is stored in {use.mean_bytes:.1f} "
            f"bytes on average."
        )
    unused, every = int(use.unused.sum()), use.counts.size
    none = "Every codeword is used" if not unused else f"{unused:,} of {every:,} codewords are not used"
    return (
        f"{none}. Used equally often, the codewords of a row would be worth {use.bits:.1f} bits; as they are used, "
        f"they are worth {use.entropy:.1f} at most."
    )


def explorer_note(measured: Measured, rows: Explored) -> str:
    """Which rows the explorer has."""
    what = measured.what
    if rows.is_all:
        return f"All {rows.of:,} {what} are in this page."
    which = "with the largest weights" if rows.by_weight else "that come first in the table, usually the most frequent"
    return (
        f"This page has the {len(rows.places):,} {what} {which}, of {rows.of:,}. Neighbours, shared codes and the tree "
        f"are those among these; all numbers above are of the whole table."
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
    if isinstance(spec, CodewordSpec):
        yield "code", f"{spec.code_length} codewords (D), each one of {spec.codebook_size} (K)"
        yield "codewords", f"{spec.codeword_dim} numbers as {spec.codebook_dtype}"
        if spec.scale_bits:
            yield "scale of rows", f"{spec.scale_bits} bits"
