"""What codes look like: K=6, D=4 on 10,000 GloVe words, so that words share codes.

    python experiments/glove_codes.py --data FOLDER

FOLDER holds `vectors.npy` and `symbols.txt` (GloVe 6B, 100 dimensions); the first 10,000 rows are used. Writes the
codes of some probe words and of their neighbours as a page, `results/glove_codes.md`, and measures what the page shows:
the cosine between words of one code against random groups of the same sizes, and the cosine between words by how many
positions their codes differ in. The codes shown are those of lowest reconstruction error among five seeds with the
library's default options. That rule looks at the error alone, but it was chosen after trial runs had been seen, so
the weekdays of one run prove little: all seeds, also with rows of length 1 and a warm start, are in the result under
`runs`, and the page says how they fare.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from experiment import Experiment
from figure import COLORS, panels
from reconstruction import read_table

import kdcode

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROWS, SIZE, LENGTH = 10_000, 6, 4
SEEDS, RANDOM_GROUPINGS = 5, 20
TINY: dict[str, Any] = {"rows": 1000, "codebook_size": 4, "code_length": 3, "epochs": 2, "seeds": 2}
SETTINGS = [(rows, start) for rows in ("as they are", "of length 1") for start in ("random", "warm")]
"""What is tried: vectors as they are or scaled to length 1, and where learning starts. The first one is shown."""

WORD_SETS = {
    "weekdays": "monday tuesday wednesday thursday friday saturday sunday",
    "months": "january february march april may june july august september october november december",
    "colours": "red orange yellow green blue purple pink brown black white gray",
    "numbers": "one two three four five six seven eight nine ten",
}
PROBES = (
    "monday january three million france london river sea doctor hospital red house car train music film actor "
    "football goal court police army war president election government bank money market computer software science "
    "school university father king church food wine water animal tree winter good think walked"
)
"""The page shows the codes of these words, and the neighbours of some of them, whatever comes out."""
NEIGHBOUR_PROBES = "monday france doctor river software"
WORDS_SHOWN = 12


@dataclass(frozen=True)
class CodedWords:
    """Words grouped by code.

    Args:
        words: N of them, most frequent first.
        vectors: (N, d), scaled to length 1, so that a product of two is their cosine.
        codes: (N, D).
        size: K.
    """

    words: Sequence[str]
    vectors: Floats
    codes: Ints
    size: int

    @cached_property
    def groups(self) -> Ints:
        """(N,): the code of every word as one number."""
        powers = self.size ** np.arange(self.codes.shape[1] - 1, -1, -1)
        return self.codes @ powers

    @cached_property
    def members(self) -> dict[tuple[int, ...], list[int]]:
        """Rows of the words of each code, in order of frequency."""
        found: dict[tuple[int, ...], list[int]] = {}
        for row, code in enumerate(map(tuple, self.codes.tolist())):
            found.setdefault(code, []).append(row)
        return found

    def code_of(self, word: str) -> tuple[int, ...]:
        """The code of a word."""
        return tuple(self.codes[self.words.index(word)].tolist())

    def shuffled(self, draw: np.random.Generator) -> CodedWords:
        """Random groups of the same sizes: the same codes, handed to the words in random order."""
        return CodedWords(self.words, self.vectors, draw.permutation(self.codes), self.size)

    def group_cosines(self) -> Floats:
        """Mean cosine over the pairs of words of each code that has at least two, in order of the codes' numbers."""
        _, places, counts = np.unique(self.groups, return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), self.vectors.shape[1]))
        np.add.at(sums, places, self.vectors)
        several = counts > 1
        # The squared length of a sum of n unit vectors is n plus the cosines of all ordered pairs.
        pairs = counts[several] * (counts[several] - 1)
        return (np.square(sums[several]).sum(axis=1) - counts[several]) / pairs

    def cosines_by_difference(self) -> Floats:
        """(D + 1,): mean cosine over all pairs of words whose codes differ in 0, 1, ... D positions."""
        used, places, counts = np.unique(self.codes, axis=0, return_inverse=True, return_counts=True)
        sums = np.zeros((len(used), self.vectors.shape[1]))
        np.add.at(sums, places.ravel(), self.vectors)
        differing = (used[:, None] != used).sum(axis=2).ravel()
        cosines = np.bincount(differing, (sums @ sums.T).ravel(), minlength=used.shape[1] + 1)
        pairs = np.bincount(differing, np.outer(counts, counts).ravel().astype(float), minlength=used.shape[1] + 1)
        cosines[0] -= len(self.words)  # a word is no pair with itself
        pairs[0] -= len(self.words)
        return np.divide(cosines, pairs, out=np.full_like(cosines, np.nan), where=pairs > 0)

    def codes_of_set(self, words: str) -> int:
        """How many codes the known words of a set take."""
        return len({self.code_of(word) for word in words.split() if word in self.words})


def learn_all(
    table: kdcode.VectorTable, options: dict[str, Any], seeds: Sequence[int], experiment: Experiment
) -> tuple[CodedWords, list[dict[str, Any]]]:
    """Codes of every setting and seed: those to show, and one record for each."""
    unit = unit_rows(table.matrix)
    records: list[dict[str, Any]] = []
    shown: CodedWords | None = None
    lowest = float("inf")
    for rows, start in SETTINGS:
        learned = table if rows == "as they are" else kdcode.VectorTable(table.symbols, unit.astype(np.float32))
        for seed in seeds:
            result = kdcode.compress(learned, **options, learner="straight-through", start=start, seed=seed)
            coded = CodedWords(table.symbols, unit, result.codes.astype(np.int64), options["codebook_size"])
            error = round(result.provenance["relative_error"], 4)
            if (rows, start) == SETTINGS[0] and error < lowest:
                shown, lowest = coded, error
            records.append(
                {
                    "rows": rows,
                    "start": start,
                    "seed": seed,
                    "relative_error": error,
                    "codes_used": len(coded.members),
                    "mean_cosine_in_code": round(float(coded.group_cosines().mean()), 4),
                    **{f"codes_of_{name}": coded.codes_of_set(words) for name, words in WORD_SETS.items()},
                }
            )
            experiment.say(str(records[-1]))
    assert shown is not None  # noqa: S101 - the first setting has at least one seed
    return shown, records


def unit_rows(matrix: npt.NDArray[np.floating[Any]]) -> Floats:
    """(N, d) rows scaled to length 1."""
    rows = np.asarray(matrix, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def similarity_records(coded: CodedWords, random: Sequence[CodedWords]) -> list[dict[str, Any]]:
    """Mean cosines of the codes beside those of random groups of the same sizes, with their spread over groupings."""
    own, other = coded.group_cosines(), [groups.group_cosines().mean() for groups in random]
    measured = {"of one code, mean over codes": (own.mean(), other)}
    by_chance = np.array([groups.cosines_by_difference() for groups in random])
    length = coded.codes.shape[1]
    for count, cosine in enumerate(coded.cosines_by_difference()):
        where = f"whose codes differ in {count} of {length} positions" if count else "of one code, mean over pairs"
        measured[where] = (cosine, by_chance[:, count])
    return [
        {
            "pairs": name,
            "mean_cosine": round(float(cosine), 4),
            "random_mean": round(float(np.mean(chance)), 4),
            "random_std": round(float(np.std(chance)), 4),
        }
        for name, (cosine, chance) in measured.items()
    ]


def set_records(coded: CodedWords, random: Sequence[CodedWords]) -> list[dict[str, Any]]:
    """How many codes weekdays, months and so on take, and which."""
    records = []
    for name, words in WORD_SETS.items():
        known = [word for word in words.split() if word in coded.words]
        codes = {name_of(coded.code_of(word)) for word in known}
        chance = [other.codes_of_set(words) for other in random]
        records.append(
            {
                "set": name,
                "words": len(known),
                "codes": len(codes),
                "random_codes": round(float(np.mean(chance)), 2),
                "which": " ".join(sorted(codes)),
            }
        )
    return records


def code_record(coded: CodedWords, code: tuple[int, ...], shown_for: str) -> dict[str, Any]:
    """One line of the table of codes and words."""
    members = coded.members.get(code, [])
    rows = coded.vectors[members]
    pairs = len(members) * (len(members) - 1)
    cosine = round(float((np.square(rows.sum(axis=0)).sum() - len(members)) / pairs), 3) if pairs else None
    first = " ".join(coded.words[row] for row in members[:WORDS_SHOWN])
    return {
        "code": name_of(code),
        "shown_for": shown_for,
        "words": len(members),
        "mean_cosine": cosine,
        "first_words": first,
    }


def code_records(coded: CodedWords) -> list[dict[str, Any]]:
    """The codes of the probe words, each code once, then those that differ from some of them in the last position."""
    found: dict[tuple[int, ...], list[str]] = {}
    for word in (word for word in PROBES.split() if word in coded.words):
        found.setdefault(coded.code_of(word), []).append(word)
    records = [code_record(coded, code, " ".join(words)) for code, words in found.items()]
    for word in (word for word in NEIGHBOUR_PROBES.split() if word in coded.words):
        beginning = coded.code_of(word)[:-1]
        records += [code_record(coded, (*beginning, last), f"neighbours of {word}") for last in range(coded.size)]
    return records


def name_of(code: Sequence[int]) -> str:
    """A code as the paper prints it: 3-1-0-4."""
    return "-".join(map(str, code))


def page(result: dict[str, Any]) -> str:
    """The Markdown page."""
    settings, runs = result["settings"], result["runs"]
    title = f"Codes of {settings['num_embeddings']:,} GloVe words, K={settings['codebook_size']}, "
    lines = [
        f"# {title}D={settings['code_length']}",
        "",
        "Written by `experiments/glove_codes.py`. Words of a code stand in order of frequency;",
    ]
    lines += [f"at most {WORDS_SHOWN} are shown. The probe words were chosen beforehand.", ""]
    lines += ["| mean cosine of words | learned codes | random groups of the same sizes |", "|---|---|---|"]
    for record in result["similarity"]:
        chance = f"{record['random_mean']:.3f} ± {record['random_std']:.3f}"
        lines.append(f"| {record['pairs']} | {record['mean_cosine']:.3f} | {chance} |")
    lines += ["", "| words | how many | codes they take | by chance | which |", "|---|---|---|---|---|"]
    for record in result["word_sets"]:
        numbers = f"{record['words']} | {record['codes']} | {record['random_codes']:.1f}"
        lines.append(f"| {record['set']} | {numbers} | {record['which']} |")
    taken = [run["codes_of_weekdays"] for run in runs]
    together = sum(count <= 2 for count in taken)
    lines += ["", f"These are the codes of one run. In all {len(runs)} runs ({len(SETTINGS)} settings of"]
    lines += [
        f"{settings['seeds']} seeds) the weekdays take {min(taken)} to {max(taken)} codes, one or two in {together}."
    ]
    heading = ""
    for record in result["rows"]:
        near = record["shown_for"].startswith("neighbours")
        wanted = f"Codes that differ in the last position: {record['shown_for']}" if near else "Codes of probe words"
        if wanted != heading:
            heading = wanted
            lines += ["", f"## {heading}", "", "| code | words | mean cosine | first words |", "|---|---|---|---|"]
        cosine = "" if record["mean_cosine"] is None else f"{record['mean_cosine']:.2f}"
        lines.append(f"| {record['code']} | {record['words']} | {cosine} | {record['first_words']} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, coded: CodedWords, random: Sequence[CodedWords]) -> None:
    """How alike words of one code are, and how that falls with the number of positions that differ."""
    with panels(path, 2) as (left, right):
        bins = np.linspace(-0.2, 1, 49)
        chance = np.concatenate([other.group_cosines() for other in random])
        left.hist(
            chance,
            bins,
            weights=np.full(len(chance), 1 / len(random)),
            color=COLORS[-1],
            alpha=0.6,
            label="random groups",
        )
        left.hist(coded.group_cosines(), bins, color=COLORS[0], alpha=0.8, label="words of one code")
        left.set(xlabel="mean cosine within the group", ylabel="groups", xlim=(-0.1, 1))
        left.legend()
        counts = np.arange(coded.codes.shape[1] + 1)
        right.plot(counts, coded.cosines_by_difference(), "o-", label="learned codes")
        by_chance = np.array([other.cosines_by_difference() for other in random])
        spread = by_chance.std(axis=0)
        right.errorbar(counts, by_chance.mean(axis=0), spread, fmt="s--", color=COLORS[-1], label="random groups")
        right.set(xlabel="positions in which two codes differ", ylabel="mean cosine of two words", xticks=counts)
        right.set_ylim(bottom=0)
        right.legend()


def main() -> None:
    """Learn the codes, then write, print and draw what they look like."""
    experiment = Experiment(__file__, __doc__, data="folder with vectors.npy and symbols.txt of GloVe 100d")
    arguments = experiment.read_arguments()
    rows, seeds = ROWS, SEEDS
    options: dict[str, Any] = {"codebook_size": SIZE, "code_length": LENGTH}
    if arguments.tiny:
        options = {name: TINY[name] for name in ("codebook_size", "code_length", "epochs")}
        rows, seeds = TINY["rows"], TINY["seeds"]
    table = read_table(None if arguments.tiny else arguments.data, rows)
    coded, runs = learn_all(table, options, range(arguments.seed, arguments.seed + seeds), experiment)
    draws = np.random.default_rng(arguments.seed)
    random = [coded.shuffled(draws) for _ in range(RANDOM_GROUPINGS)]
    similarity, sets, codes = similarity_records(coded, random), set_records(coded, random), code_records(coded)
    shown = min(
        (run for run in runs if (run["rows"], run["start"]) == SETTINGS[0]), key=lambda run: run["relative_error"]
    )
    settings = {
        **options,
        "num_embeddings": len(table),
        "embedding_dim": table.embedding_dim,
        "seeds": seeds,
        "shown": "lowest relative error over the seeds with rows as they are and a random start",
        "shown_seed": shown["seed"],
        "random_groupings": RANDOM_GROUPINGS,
    }
    path = experiment.write(settings, codes, similarity=similarity, word_sets=sets, runs=runs)
    path.with_suffix(".md").write_text(page(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    draw(experiment.figure_path(), coded, random)
    for record in similarity:
        print(f"words {record['pairs']:<44} {record['mean_cosine']:.3f}  by chance {record['random_mean']:.3f}")
    for record in sets:
        print(f"{record['set']:<10} {record['words']} words in {record['codes']} codes: {record['which']}")


if __name__ == "__main__":
    main()
