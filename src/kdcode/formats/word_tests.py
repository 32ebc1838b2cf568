"""Files that word vectors are tested with: pairs of words with scores of similarity, and analogies.

They are what `--similarity` and `--analogies` take: text in UTF-8, one pair or one question to a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from kdcode.errors import FormatError
from kdcode.formats.blocks import line_blocks
from kdcode.formats.file_rows import shown
from kdcode.formats.format import ReadOptions
from kdcode.formats.numbers import is_number
from kdcode.formats.opening import on_disk

_SEPARATORS = ("\t", ",", ";", None)
"""What stands between words, the first of these that a line has; None is for spaces."""


class SimilarityTest(NamedTuple):
    """Pairs of words and how similar people find them.

    Args:
        name: of the file, without folder and suffix.
        pairs: n pairs.
        scores: n numbers, larger for words that are more similar.
    """

    name: str
    pairs: list[tuple[str, str]]
    scores: list[float]


class AnalogyTest(NamedTuple):
    """Questions such as "Athens is to Greece as Baghdad is to …", with their answers.

    Args:
        name: of the file, without folder and suffix.
        sections: the questions of each section, by its name; four words each. Those before any heading are under "".
    """

    name: str
    sections: dict[str, list[tuple[str, str, str, str]]]


def read_similarity(path: str | PathLike[str]) -> SimilarityTest:
    """Read a file of word pairs: WordSim-353, SimLex-999, MEN and the like as they are handed out, or made by hand.

    A line has two words and numbers, separated by tabs, spaces, commas or semicolons; the first number is the score,
    and what stands beside it is passed over. A first line without a number is a heading, and lines that begin with #
    are comments.

    Raises:
        FormatError: a line is something else; the message names it.
    """
    pairs: list[tuple[str, str]] = []
    scores: list[float] = []
    for place, (number, line) in enumerate(_lines(path)):
        fields = _split(line)
        score = next((field for field in fields[2:] if is_number(field.encode())), None)
        if score is None and place == 0:
            continue  # a heading
        if score is None:
            raise _refusal(path, number, "two words and a number", line)
        pairs.append((fields[0], fields[1]))
        scores.append(float(score))
    if len(pairs) < 2:
        raise FormatError(f"{path}: expected at least two lines of two words and a number, found {len(pairs)}")
    return SimilarityTest(Path(path).stem, pairs, scores)


def read_analogies(path: str | PathLike[str]) -> AnalogyTest:
    """Read a file of analogies as Google's: four words to a line, and lines like `: family` that begin a section.

    Raises:
        FormatError: a line is something else; the message names it.
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    section = ""
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line.removeprefix(":").strip()
            continue
        words = _split(line)
        if len(words) != 4:
            raise _refusal(path, number, "four words, or a section like `: family`", line)
        sections.setdefault(section, []).append((words[0], words[1], words[2], words[3]))
    if not sections:
        raise FormatError(f"{path}: expected lines of four words, found none")
    return AnalogyTest(Path(path).stem, sections)


def _lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """The lines of a file that are neither empty nor comments, with their numbers from 1."""
    with on_disk(Path(path)) as file:
        limit = ReadOptions().memory_limit(file)
        for first, block in line_blocks(file, None, limit):
            for number, raw in enumerate(block, first):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                except UnicodeDecodeError:
                    raise FormatError(f"{path}: line {number}: {shown(raw)} is not UTF-8") from None
                if line and not line.startswith("#"):
                    yield number, line


def _split(line: str) -> list[str]:
    separator = next(mark for mark in _SEPARATORS if mark is None or mark in line)
    return [field.strip() for field in line.split(separator)]


def _refusal(path: str | PathLike[str], number: int, expected: str, line: str) -> FormatError:
    return FormatError(f"{path}: line {number}: expected {expected}, found {shown(line.encode())}")
