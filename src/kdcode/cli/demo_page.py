"""The page that `kdcode demo` prints: 80 columns, every number computed from the tables it is given."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from kdcode.cli import page
from kdcode.cli.shell import command_line
from kdcode.coded import CodedTable
from kdcode.mapping import TableMapping
from kdcode.printable import shown
from kdcode.progress_bar import clock
from kdcode.table import VectorTable
from kdcode.wording import percent, shared_codes

WIDTH = 80
WORDS = ("king", "monday", "france", "piano", "river")
PAIRS = (("monday", "tuesday"), ("king", "prince"))
ANCHORS = ("monday", "france", "piano", "seven", "brother")
"""Words whose groups of equal codes are shown."""

_NEIGHBORS = 4
_BAR = 22


@dataclass(frozen=True)
class Demo:
    """What the page is made of.

    Args:
        table: the original vectors.
        coded: the compressed table, as `kdcode.compress` gives it.
        crowded: the same words in codes so few that words have to share them.
        file_bytes: size of the saved `coded`.
        kept: where `coded` was kept, or None.
        report: where the report about it was written, or None.
    """

    table: VectorTable
    coded: CodedTable
    crowded: CodedTable
    file_bytes: int
    kept: Path | None
    report: Path | None = None


def render(demo: Demo) -> Iterator[str]:
    """The lines of the page."""
    for part in (_opening, _sizes, _loss, _codes, _neighbors, _groups, _commands):
        yield from (line.rstrip() for line in part(demo))
        yield ""


def _opening(demo: Demo) -> Iterator[str]:
    coded, dim = demo.coded, demo.coded.embedding_dim
    yield click.style("kdcode", bold=True, fg="cyan") + click.style(" · embedding tables as short codes", bold=True)
    yield from textwrap.wrap(
        "An embedding table keeps a row of floats for every symbol. kdcode learns a short code of small integers for "
        "each symbol instead, and a small codebook that all symbols share: the codewords that a code points to add up "
        "to its vector.",
        WIDTH,
    )
    yield ""
    yield from textwrap.wrap(
        f"Just now, in {clock(coded.learning_seconds or 0.0)}, {len(coded):,} English words (GloVe) went from {dim} "
        f"floats ({32 * dim:,} bits) each to a code of D={coded.code_length} integers below K={coded.codebook_size} "
        f"({coded.spec.bits} bits).",
        WIDTH,
    )


def _sizes(demo: Demo) -> Iterator[str]:
    sizes, count, dim = demo.coded.sizes, len(demo.coded), demo.coded.embedding_dim
    floats = 4 * count * dim
    yield _heading("Size in bytes", f"{'before':>21}{'after':>12}")
    yield _size_row("vectors", floats, sizes.embedding, f"{sizes.ratio(count, dim):.1f}x smaller")
    for name in ("codes", "codebook", "composition"):
        part = getattr(sizes, name)
        if part:
            yield _size_row(f"  {name}", None, part, _bar(part / demo.file_bytes))
    yield _size_row(
        "symbols", sizes.symbols, sizes.symbols, _bar(sizes.symbols / demo.file_bytes) + " the words themselves"
    )
    yield _size_row("overhead", None, demo.file_bytes - sizes.total, "header and digests")
    ratio = sizes.file_ratio(count, dim, demo.file_bytes)
    yield _size_row("file", floats + sizes.symbols, demo.file_bytes, f"{ratio:.1f}x smaller")


def _loss(demo: Demo) -> Iterator[str]:
    measured = ("relative_error", "mean_cosine", "recall_at_10")
    error, cosine, recall = (demo.coded.provenance[name] for name in measured)
    yield _heading("What was lost")
    yield f"  {error:.1%} of the variance (relative error {error:.4f})"
    yield f"  mean cosine between a vector and its copy: {cosine:.4f}"
    yield f"  {percent(recall)} of a word's 10 nearest words are the same as before"
    yield f"  shared codes: {shared_codes(demo.coded.shared_codes, len(demo.coded), 'words')}"


def _codes(demo: Demo) -> Iterator[str]:
    length, chance = demo.coded.code_length, demo.coded.code_length / demo.coded.codebook_size
    yield _heading("Words and their codes", f"   (random codes would have {chance:.0f} of {length} equal)")
    for first, second in PAIRS:
        one, other = demo.coded.code_of(first), demo.coded.code_of(second)
        equal = [a == b for a, b in zip(one, other, strict=True)]
        yield f"  {first:<7} {_code_cells(one, equal)}"
        yield f"  {second:<7} {_code_cells(other, equal)}   {sum(equal)} of {len(equal)} equal"


def _neighbors(demo: Demo) -> Iterator[str]:
    yield _heading("Nearest words", f"      {'before':<25}{'after':<32}same")
    for word in WORDS:
        before = _nearest(demo.table, word, _NEIGHBORS)
        after = _nearest(demo.coded, word, _NEIGHBORS)
        same = len(set(before) & set(after))
        yield f"  {word:<6} {page.clipped(before, 33):<33} {page.clipped(after, 33):<33} {same}/{_NEIGHBORS}"


def _groups(demo: Demo) -> Iterator[str]:
    crowded = demo.crowded
    slots = crowded.codebook_size**crowded.code_length
    yield _heading("Words that share a code")
    yield from textwrap.wrap(
        f"Learned again with only K={crowded.codebook_size}, D={crowded.code_length}: {slots:,} codes for "
        f"{len(crowded):,} words, so words must share. Some of these groups, with the number of words in each:",
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    groups = dict(crowded.code_groups())
    seen: set[tuple[int, ...]] = set()
    for anchor in ANCHORS:
        code = crowded.code_of(anchor)
        if code in seen:
            continue
        seen.add(code)
        group = demo.table.matrix[groups[code]]
        alike = _nearest(VectorTable(crowded.symbols_at(groups[code]), group), anchor, len(group) - 1)
        text, size = page.code_text(code, crowded.spec), f"({len(group)})"
        words = page.clipped([anchor, *alike], WIDTH - 6 - len(text) - len(size))
        yield f"  {click.style(text, fg='green')}  {words} {click.style(size, dim=True)}"


def _commands(demo: Demo) -> Iterator[str]:
    if demo.report is not None:
        yield _heading("The report", "   (open it in a browser: charts, and an explorer of words and codes)")
        yield f"  {shown(str(demo.report))}"
        yield ""
    file = str(demo.kept or "vectors.kdc")
    yield _heading("The same on your own vectors")
    yield "  kdcode compress vectors.txt vectors.kdc --size 20x"
    yield f"  {command_line('neighbors', [file, 'king'])}"
    yield f"  {command_line('info', [file])}"


def _nearest(table: TableMapping, symbol: str, count: int) -> list[str]:
    return [neighbor.symbol for neighbor in table.neighbors(symbol, count)] if count else []


def _heading(title: str, rest: str = "") -> str:
    return click.style(title, bold=True) + click.style(rest, dim=True)


def _code_cells(code: Sequence[int], equal: Sequence[bool]) -> str:
    """A code in columns; on a terminal, positions that two words share are the bright ones."""
    cells = zip(code, equal, strict=True)
    return " ".join(click.style(f"{value:>2}", fg="green", bold=same, dim=not same) for value, same in cells)


def _size_row(name: str, before: int | None, after: int, note: str) -> str:
    was = "" if before is None else f"{before:,}"
    return f"  {name:<14}{was:>18}{after:>12,}   {note}"


def _bar(share: float) -> str:
    return click.style("█" * max(1, round(share * _BAR)), fg="cyan")
