"""Word similarity and analogies: files of tests for word vectors, and the scores of a table and its copy in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.errors import FormatError, TableError
from kdcode.evaluation.correlation import pair_cosines, spearman
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.neighbors import unit_rows
from kdcode.io import Progress, ReadOptions
from kdcode.io.lines import is_number, line_blocks, shown
from kdcode.io.places import on_disk

Mask = npt.NDArray[np.bool_]

_ROWS_AT_ONCE = 4096
_QUESTIONS_AT_ONCE = 512
_TIE = 1e-6
"""Tolerance within which scores tie: they are sums of three float32 cosines."""


_SEPARATORS = ("\t", ",", ";", None)
"""What separates words: the first of these that a line has; None is for spaces."""


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
    """Read a file of word pairs: WordSim-353, SimLex-999, MEN and the like as published, or your own.

    A line has two words and numbers, separated by tabs, spaces, commas or semicolons; the first number is the score,
    and other fields are ignored. A first line without a number is a heading, and lines that begin with # are comments.

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


@dataclass(frozen=True)
class WordScore:
    """What a test says of a table and of its copy.

    Args:
        kind: "similarity": Spearman's correlation between the cosines of pairs of words and what people say; or
            "analogies": the share of questions that are answered correctly.
        name: of the test.
        original: the score of the original.
        copy: the score of the copy.
        used: how many pairs or questions have all their words in both tables; for analogies, in the vocabulary.
        total: how many the test has.
        vocabulary: of analogies, how many first rows an answer may come from.
        sections: of analogies, the scores of each section, by its name.
    """

    kind: str
    name: str
    original: float
    copy: float
    used: int
    total: int
    vocabulary: int | None = None
    sections: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def drop(self) -> float:
        """By how much the score of the copy is lower; negative where it is higher."""
        return self.original - self.copy

    @property
    def coverage(self) -> float:
        """The share of pairs or questions that could be used."""
        return self.used / self.total

    def as_dict(self) -> dict[str, object]:
        """Everything by name, as JSON values."""
        sections = {name: {"original": one, "copy": other} for name, (one, other) in self.sections.items()}
        own = {name: value for name, value in vars(self).items() if value is not None and name != "sections"}
        return {**own, "drop": self.drop, "coverage": self.coverage, **({"sections": sections} if sections else {})}


def similarity_score(pairs: RowPairs, test: SimilarityTest) -> WordScore:
    """Score both tables by a test of word similarity.

    A word is looked up as it is written and, where that is not there, in lower case.

    Raises:
        TableError: fewer than two of its pairs have both words in both tables.
    """
    place = word_places(pairs, (word for pair in test.pairs for word in pair))
    found = [(place[one], place[other]) for one, other in test.pairs if one in place and other in place]
    if len(found) < 2:
        raise TableError(
            f"{test.name}: {len(found)} of its {len(test.pairs):,} pairs have both words in both tables, and two are "
            f"the least for a correlation; the tables have symbols such as {_some(pairs)}"
        )
    scores = [s for s, pair in zip(test.scores, test.pairs, strict=True) if pair[0] in place and pair[1] in place]
    first, second = np.array(found).T
    original, copy = (spearman(scores, pair_cosines(pairs, side, first, second)) for side in (0, 1))
    return WordScore("similarity", test.name, original, copy, len(found), len(test.pairs))


def analogy_score(
    pairs: RowPairs, test: AnalogyTest, vocabulary: int, on_progress: Progress | None = None
) -> WordScore:
    """Score both tables by analogies.

    The answer to "a is to b as c is to …" is the row most similar, by cosine, to b − a + c, of unit vectors (3CosAdd,
    Mikolov and others 2013), but for a, b and c themselves; of equally similar rows it is the first. Words are looked
    up as by `similarity_score`.

    Args:
        pairs: the rows of both tables.
        test: the questions.
        vocabulary: how many first rows may be answers, which in most tables are the most frequent; questions with other
            words are left out, and counted in `used`.
        on_progress: called with what is done and what there is.

    Raises:
        TableError: no question has all its words in the vocabulary.
    """
    vocabulary = min(vocabulary, len(pairs))
    total = sum(map(len, test.sections.values()))
    place = word_places(pairs, (word for some in test.sections.values() for words in some for word in words))
    place = {word: row for word, row in place.items() if row < vocabulary}
    names, questions = [], []
    for name, some in test.sections.items():
        known = [[place[word] for word in words] for words in some if all(word in place for word in words)]
        names += [name] * len(known)
        questions += known
    if not questions:
        raise TableError(
            f"{test.name}: none of its {total:,} questions has all words among the first {vocabulary:,} rows of both "
            f"tables, which have symbols such as {_some(pairs)}"
        )
    asked = np.array(questions)

    def advance(side: int, done: int) -> None:
        if on_progress is not None:
            on_progress(side * vocabulary + done, 2 * vocabulary)

    right = [_answered(pairs, side, asked, vocabulary, partial(advance, side)) for side in (0, 1)]
    by_section = {
        name: (float(right[0][here].mean()), float(right[1][here].mean()))
        for name in dict.fromkeys(names)
        for here in [np.array(names) == name]
    }
    original, copy = (float(one.mean()) for one in right)
    return WordScore("analogies", test.name, original, copy, len(asked), total, vocabulary, by_section)


def word_places(pairs: RowPairs, words: Iterable[str]) -> dict[str, int]:
    """The numbers of the pairs of rows that words stand for, as written or else in lower case; others are left out."""
    original, found = pairs.tables[0], {}
    for word in dict.fromkeys(words):
        row = next((original.row_of(name) for name in (word, word.lower()) if name in original), None)
        at = None if row is None else pairs.place_of(row)
        if at is not None:
            found[word] = at
    return found


def _answered(pairs: RowPairs, side: int, questions: IntArray, vocabulary: int, advance: Callable[[int], None]) -> Mask:
    """(n,) whether (n, 4) questions are answered correctly.

    The cosine of a row with b − a + c is, but for a factor, a sum of its cosines with b, a and c: a test asks for few
    different words, so that the products of these with all rows are soon made. An answer is correct if no row in the
    vocabulary is above the one asked for: questions for which one was found are not looked at any further.
    """
    words, number = np.unique(questions, return_inverse=True)
    number = number.reshape(questions.shape)
    asked = _float_units(pairs, side, words)
    a, b, c, d = number.T
    among = asked @ asked.T
    goal = among[b, d] - among[a, d] + among[c, d]
    right: Mask = ~(questions[:, :3] == questions[:, 3:]).any(axis=1)
    for start in range(0, vocabulary, _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, vocabulary))
        cosines = asked @ _float_units(pairs, side, rows).T
        open_questions = np.flatnonzero(right)
        for first in range(0, len(open_questions), _QUESTIONS_AT_ONCE):
            some = open_questions[first : first + _QUESTIONS_AT_ONCE]
            scores = cosines[b[some]]
            scores -= cosines[a[some]]
            scores += cosines[c[some]]
            right[some] &= ~_is_beaten(scores, goal[some], questions[some] - start)
        advance(start + len(rows))
    return right


def _is_beaten(scores: FloatArray, goal: FloatArray, places: IntArray) -> Mask:
    """Whether one of (n, m) rows is above the (n,) goal, or as high and before the row asked for.

    Args:
        scores: of the rows.
        goal: the score of the row asked for.
        places: (n, 4) columns of a, b and c, which are no answers, and of the row asked for, d; some are elsewhere.
    """
    for column in places.T[:3]:
        here = np.flatnonzero((column >= 0) & (column < scores.shape[1]))
        scores[here, column[here]] = -np.inf
    best = scores.max(axis=1)
    beaten: Mask = best > goal + _TIE
    for one in np.flatnonzero(~beaten & (best >= goal - _TIE)):  # the row asked for itself, or one that is as high
        before = scores[one, : max(0, places[one, 3])]
        beaten[one] = bool((before >= goal[one] - _TIE).any())
    return beaten


def _float_units(pairs: RowPairs, side: int, rows: IntArray) -> FloatArray:
    return unit_rows(pairs.vectors(side, rows)).astype(np.float32)


def _some(pairs: RowPairs) -> str:
    names = pairs.tables[0].symbols_at(np.arange(min(3, len(pairs.tables[0]))))
    return ", ".join(map(repr, names))
