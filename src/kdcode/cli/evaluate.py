"""`kdcode evaluate`: a table and its compressed copy side by side, and gates for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli import page
from kdcode.cli.files import TablePath, input_file, read_rows, spoken
from kdcode.cli.flags import FlaggedCommand, Sections, dashed, example, flags_for, naming_flags, reading_sections, take
from kdcode.printable import shown
from kdcode.progress_bar import progress
from kdcode.wording import shared_codes

if TYPE_CHECKING:
    from kdcode.evaluation import CodeUse, Evaluation, GateResult, LevelUse, Measures, WordScore
    from kdcode.evaluation.matching import Table

RANK = "rank"

_SHORT = (
    "similarity",
    "analogies",
    "weights",
    "max_error",
    "min_cosine",
    "min_recall",
    "max_drop",
    "worst",
    "seed",
    "as_json",
    "quiet",
)


def _sections() -> Sections:
    from kdcode.evaluation import EvaluationOptions, Gates

    return {
        "Gates": flags_for(Gates),
        "Sampling": flags_for(EvaluationOptions),
        **reading_sections("Reading tables that are not .kdc files"),
    }


@click.command(
    "evaluate",
    cls=FlaggedCommand,
    sections=_sections,
    short=_SHORT,
    epilog=example(
        "kdcode evaluate glove.txt glove.kdc",
        "kdcode evaluate glove.txt glove.kdc --similarity ws353.txt --analogies questions-words.txt",
        "kdcode evaluate glove.txt glove.kdc --min-cosine 0.9 --min-recall 0.7",
    ),
)
@click.argument("original", type=TablePath())
@click.argument("compressed", type=TablePath())
@click.option(
    "--similarity",
    multiple=True,
    type=click.Path(exists=True),
    metavar="FILE",
    help="File of word pairs with scores of similarity, such as WordSim-353; may be given several times.",
)
@click.option(
    "--analogies",
    multiple=True,
    type=click.Path(exists=True),
    metavar="FILE",
    help="File of analogies such as Google's questions-words.txt; may be given several times.",
)
@click.option(
    "--weights",
    metavar="FILE|rank",
    help="Measure by weight as well: a file with a weight for each symbol or row, or `rank` for 1/rank in the order of "
    "ORIGINAL.",
)
@click.option("--format", "format_name", help="Format of ORIGINAL; by default detected from its name and content.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Do not show progress on stderr.")
def command(
    original: str,
    compressed: str,
    *,
    similarity: tuple[str, ...],
    analogies: tuple[str, ...],
    weights: str | None,
    format_name: str | None,
    as_json: bool,
    quiet: bool,
    **values: Any,  # noqa: ANN401 - one value per field of the options
) -> None:
    """Measure what is lost between ORIGINAL and COMPRESSED, two tables in any format.

    Errors, cosines, nearest neighbours, similarities, scores of word tests, the rows that lose most and, of a .kdc
    file, the use of its codes. Rows are matched by symbol. With bounds such as --min-cosine 0.9 it is a gate: the exit
    code is 1 if one is not kept, and stderr says which.
    """
    from kdcode.evaluation import EvaluationOptions, Gates, evaluate
    from kdcode.evaluation.gates import require
    from kdcode.evaluation.word_tests import read_analogies, read_similarity
    from kdcode.io import ReadOptions
    from kdcode.io.row_weights import RowWeights

    reading, options, gates = take(ReadOptions, values), take(EvaluationOptions, values), take(Gates, values)
    with naming_flags():
        gates.check_inputs(has_weights=weights is not None, has_tests=bool(similarity or analogies))
    similar = [read_similarity(input_file(path)) for path in similarity]
    questions = [read_analogies(input_file(path)) for path in analogies]
    by_row = weights if weights in (None, RANK) else RowWeights.read(input_file(weights))
    table = read_rows(original, reading, format_name, quiet=quiet)
    copy = read_rows(compressed, reading, quiet=quiet)
    counts = by_row.of_table(table.symbols) if isinstance(by_row, RowWeights) else by_row
    with progress("measuring", quiet=quiet) as advance:
        found = evaluate(
            table, copy, counts, similarity=similar, analogies=questions, options=options, on_progress=advance
        )
    use, results = _code_use(copy), gates.check(found)
    if as_json:
        page.print_json(_as_json(original, compressed, table, copy, found, use, results))
    else:
        page.echo(page.matched(found.match, spoken(compressed), spoken(original)))
        page.echo(["", *_side_by_side(found, table, copy)])
        page.echo(["", *_codes(use, copy), *_worst(found), _sampled(found), *_gates(results)])
    require(results)


def _code_use(copy: Table) -> CodeUse | LevelUse | None:
    from kdcode.coded import CodedTable
    from kdcode.evaluation.code_use import code_use
    from kdcode.evaluation.level_use import level_use

    return (code_use(copy) or level_use(copy)) if isinstance(copy, CodedTable) else None


def _as_json(
    original: str,
    compressed: str,
    table: Table,
    copy: Table,
    found: Evaluation,
    use: CodeUse | LevelUse | None,
    results: Sequence[GateResult],
) -> dict[str, Any]:
    from kdcode.evaluation.matching import stored_bytes

    return {
        "original": original,
        "compressed": compressed,
        "original_bytes": 4 * len(table) * table.embedding_dim,
        "compressed_bytes": stored_bytes(copy),
        **found.as_dict(),
        "codes": None if use is None else use.as_dict(),
        "gates": [result.as_dict() for result in results],
        "passed": all(result.passed for result in results),
    }


def _side_by_side(found: Evaluation, table: Table, copy: Table) -> list[str]:
    """The table of measures: original, compressed, difference, and by weight where there are weights."""
    from kdcode.evaluation.matching import stored_bytes

    before, after = 4 * len(table) * table.embedding_dim, stored_bytes(copy)
    rows = [["", "original", "compressed", "difference", *(["by weight"] if found.weighted else [])]]
    rows.append(["bytes", f"{before:,}", f"{after:,}", f"{before / after:.1f}x smaller"])
    weighted = _measured(found.weighted) if found.weighted is not None else {}
    for name, (perfect, value) in _measured(found).items():
        rows.append([name, f"{perfect:.4f}", f"{value:.4f}", f"{value - perfect:+.4f}"])
        if weighted:
            rows[-1].append(f"{weighted[name][1]:.4f}")
    for test in found.tests:
        rows.append([_test_name(test), f"{test.original:.4f}", f"{test.copy:.4f}", f"{test.copy - test.original:+.4f}"])
    width = len(rows[0])
    return page.columns([[*row, *[""] * (width - len(row))] for row in rows], right=range(1, width))


def _measured(found: Measures) -> dict[str, tuple[float, float]]:
    """Each measure by its name: what a perfect copy has, and what was found."""
    low = {f"cosine, lowest {share}% of rows": (1, found.cosine_percentiles[share]) for share in (1, 5)}
    return {
        "relative error": (0, found.relative_error),
        "mean cosine": (1, found.mean_cosine),
        **low,
        "cosine, median row": (1, found.cosine_percentiles[50]),
        "error of lengths": (0, found.norm_error),
        "recall@1": (1, found.recall_at_1),
        "recall@10": (1, found.recall_at_10),
        "recall@100": (1, found.recall_at_100),
        "rank correlation": (1, found.rank_correlation),
    }


def _test_name(test: WordScore) -> str:
    what = "pairs" if test.kind == "similarity" else "questions"
    return f"{shown(test.name)}, {test.used:,} of {test.total:,} {what}"


def _codes(use: CodeUse | LevelUse | None, copy: Table) -> list[str]:
    """How codes are used, in words; nothing of a table without codes."""
    from kdcode.evaluation import CodeUse

    if use is None:
        return []
    if isinstance(use, CodeUse):
        length, size = use.counts.shape
        unused = int(use.unused.sum())
        lines = {
            "unused codewords": f"{unused:,} of {length * size:,}" if unused else f"none of {length * size:,}",
            "entropy": f"{use.entropy:.1f} of {use.bits:.1f} bits",
        }
    else:
        lines = {
            "levels": f"{use.counts.shape[0]:,} for each row, from −{use.largest} to {use.largest}",
            "entropy": f"{use.entropy:.1f} bits, in rows of {8 * use.mean_bytes:.1f} bits on average",
        }
    return [*page.pairs({**lines, "shared codes": shared_codes(use.shared_codes, len(copy))}), ""]


def _worst(found: Evaluation) -> list[str]:
    if not found.worst:
        return []
    rows = [["worst rows", "row", "cosine", "length before", "after"]]
    rows += [
        [shown(row.symbol), f"{row.row:,}", f"{row.cosine:.4f}", f"{row.length:.4g}", f"{row.copy_length:.4g}"]
        for row in found.worst
    ]
    return [*page.columns(rows, right=range(1, 5)), ""]


def _sampled(found: Evaluation) -> str:
    """What was looked at where not everything was."""
    sampling, rows = found.sampling, found.match.rows
    queries = "all rows" if sampling.queries == rows else f"{sampling.queries:,} rows"
    every = sampling.pairs == rows * (rows - 1) // 2
    pairs = "all pairs" if every else f"{sampling.pairs:,} pairs"
    drawn = "" if every and sampling.queries == rows else f", drawn with seed {sampling.seed}"
    tests = {f"; analogies are answered from the first {t.vocabulary:,} rows" for t in found.tests if t.vocabulary}
    return f"recall is measured for {queries}, rank correlation for {pairs}{drawn}{''.join(sorted(tests))}"


def _gates(results: Sequence[GateResult]) -> list[str]:
    if not results:
        return []
    words = [["passed" if one.passed else "FAILED", shown(f"{one}"), f"({dashed(one.gate)})"] for one in results]
    return ["", *page.columns(words)]
