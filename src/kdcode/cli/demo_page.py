"""The page that `kdcode demo` prints: 80 columns, every number computed from the tables it is given."""

from __future__ import annotations

import os
import shutil
import sys
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
from kdcode.wording import percent

WIDTH = 80
WORDS = ("king", "monday", "france", "piano", "river")
PAIRS = (("monday", "tuesday"), ("king", "prince"))
ANCHORS = ("monday", "france", "piano", "seven", "brother")
"""Words whose groups of equal codes are shown."""

_NEIGHBORS = 4
_BAR = 22


@dataclass(frozen=True)
class Sized:
    """The table compressed to a size.

    Args:
        size: as it was asked for.
        coded: what came of it.
        file_bytes: of its file.
        seconds: that planning and learning took.
    """

    size: str
    coded: CodedTable
    file_bytes: int
    seconds: float


@dataclass(frozen=True)
class Demo:
    """What the page is made of.

    Args:
        table: the original vectors.
        sizes: the table compressed to several sizes.
        shown: which of them is shown in detail.
        codes: the same words in codes of few integers, as `codewords=True` gives them.
        crowded: the same words in codes so few that words have to share them.
        kept: where the table of `shown` was kept, or None.
        report: where the report about it was written, or None.
    """

    table: VectorTable
    sizes: Sequence[Sized]
    shown: int
    codes: CodedTable
    crowded: CodedTable
    kept: Path | None
    report: Path | None = None

    @property
    def main(self) -> Sized:
        """The size that is shown in detail."""
        return self.sizes[self.shown]


def render(demo: Demo) -> Iterator[str]:
    """The lines of the page."""
    for part in (_opening, _sizes, _neighbors, _bytes, _codes, _groups, _commands):
        yield from (line.rstrip() for line in part(demo))
        yield ""


def _opening(demo: Demo) -> Iterator[str]:
    yield click.style("kdcode", bold=True, fg="cyan") + click.style(" · embedding tables made small", bold=True)
    yield from textwrap.wrap(
        f"{len(demo.table):,} English words (GloVe) with {demo.table.embedding_dim} floats each, compressed just now. "
        "Relative error is squared error over variance: 0 is a perfect copy.",
        WIDTH,
    )


def _sizes(demo: Demo) -> Iterator[str]:
    yield _heading("Size", f"{'vectors':>21}{'error':>10}{'cosine':>9}{'same 10 nearest':>18}{'made in':>13}")
    floats = 4 * len(demo.table) * demo.table.embedding_dim
    yield f"  {'float32':<11}{floats:>12,}{0:>10}{1:>9}{percent(1.0):>18}"
    for one in demo.sizes:
        told, coded = one.coded.provenance, one.coded
        error, cosine, recall = (told[name] for name in ("relative_error", "mean_cosine", "recall_at_10"))
        seconds = clock(one.seconds)
        bytes_ = f"{coded.sizes.embedding:,}"
        yield f"  --size {one.size:<4}{bytes_:>12}{error:>10.4f}{cosine:>9.4f}{percent(recall):>18}{seconds:>13}"


def _neighbors(demo: Demo) -> Iterator[str]:
    yield _heading("Nearest words", f"      {'before':<25}{f'after --size {demo.main.size}':<32}same")
    for word in WORDS:
        before = _nearest(demo.table, word, _NEIGHBORS)
        after = _nearest(demo.main.coded, word, _NEIGHBORS)
        same = len(set(before) & set(after))
        yield f"  {word:<6} {page.clipped(before, 33):<33} {page.clipped(after, 33):<33} {same}/{_NEIGHBORS}"


def _bytes(demo: Demo) -> Iterator[str]:
    coded, file_bytes = demo.main.coded, demo.main.file_bytes
    sizes, count, dim = coded.sizes, len(coded), coded.embedding_dim
    floats = 4 * count * dim
    yield _heading("Bytes of the file", f"{'before':>17}{'after':>12}")
    yield _size_row("vectors", floats, sizes.embedding, f"{sizes.ratio(count, dim):.1f}x smaller")
    symbols = _bar(sizes.symbols / file_bytes) + " the words themselves"
    yield _size_row("symbols", sizes.symbols, sizes.symbols, symbols)
    yield _size_row("overhead", None, file_bytes - sizes.total, "header and digests")
    ratio = sizes.file_ratio(count, dim, file_bytes)
    yield _size_row("file", floats + sizes.symbols, file_bytes, f"{ratio:.1f}x smaller")


def _codes(demo: Demo) -> Iterator[str]:
    codes = demo.codes
    length, chance = codes.code_length, codes.code_length / codes.codebook_size
    yield _heading("Codes that can be read", " (kdcode compress --codewords, or -K and -D)")
    yield from textwrap.wrap(
        f"K-way D-dimensional codes: {length} integers below {codes.codebook_size} for each word ({codes.spec.bits} "
        f"bits), which choose the codewords that add up to its vector; error {codes.provenance['relative_error']:.4f}. "
        f"Words that mean similar things have similar codes; random ones would have {chance:.0f} of {length} equal:",
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    for first, second in PAIRS:
        one, other = codes.code_of(first), codes.code_of(second)
        equal = [a == b for a, b in zip(one, other, strict=True)]
        yield f"  {first:<7} {_code_cells(one, equal)}"
        yield f"  {second:<7} {_code_cells(other, equal)}   {sum(equal)} of {len(equal)} equal"


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
    if (activate := _activation()) is not None:
        yield f"  . {shown(activate)}"
    yield "  kdcode compress vectors.txt vectors.kdc --size 20x"
    yield f"  {command_line('neighbors', [file, 'king'])}"
    yield f"  {command_line('info', [file])}"


def _activation() -> str | None:
    """The script that puts `kdcode` on the path of a shell, where a virtual environment has it and the path has not."""
    script = Path(sys.prefix, "bin", "activate")
    if shutil.which("kdcode") is not None or not script.is_file():
        return None
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


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
