"""The counting claims of the paper's first section: code space, collisions, and parameters against the vocabulary.

    python experiments/code_space.py

Shares of the code space and the billion-symbol example are arithmetic. Collisions are also counted: in codes drawn at
random, many times over, and in codes that kdcode learns. Parameters are those of the library's own modules, made on
torch's meta device, which allocates nothing.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Experiment
from figure import COLORS, panels
from matplotlib.axes import Axes
from torch import Tensor

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.codec_torch.randomness import generator_for
from kdcode.data import glove_50d

Record = dict[str, Any]

BILLION = (10**9, 100, 10)
"""The paper's example of a redundant code: N, K, D."""
SMALL_BILLION = (100, 10, 6)
"""As many pairs of symbols per code as in that example, small enough to draw."""
DRAWN = {  # K, D: the N that codes are drawn for
    (10, 4): (25, 50, 75, 100, 150, 200, 300),
    (16, 5): (250, 500, 750, 1000, 1500, 2000, 3000),
}
LEARNED = ((8, 6), (16, 6), (32, 8), (32, 16))
REDUNDANCY = 2.0
"""c: codes are so long that there are N^c of them."""
EMBEDDING_DIM = 200
GROWTH_SIZE = 32
"""K where N grows."""
SHORT_WORDS = 50
"""Numbers in a codeword where an H makes vectors of codewords."""
LABELS = {"linear": "linear", "linear, H": f"linear, codewords of {SHORT_WORDS}", "lstm": "LSTM"}
SIZES = tuple(range(2, 17))


def chance_of_none(symbols: int, codes: int) -> float:
    """The birthday formula: probability that no two of N random codes among M are equal, to first order."""
    return math.exp(-symbols * (symbols - 1) / (2 * codes))


def exact_chance_of_none(symbols: int, codes: int) -> float:
    """The same exactly: Π (1 − i / M) for i below N."""
    return float(np.exp(np.log1p(-np.arange(min(symbols, codes + 1)) / codes).sum())) if symbols <= codes else 0.0


def slots(codes: Tensor, codebook_size: int) -> Tensor:
    """(…, D) codes to the (…) numbers that they are as digits to the base K; K^D at most 2^63."""
    weights = codebook_size ** torch.arange(codes.shape[-1])
    return (codes.long() * weights).sum(dim=-1)


def has_collision(numbers: Tensor) -> Tensor:
    """(n, N) numbers to (n,) whether two of a row are equal."""
    ordered = numbers.sort(dim=-1).values
    return (ordered[:, 1:] == ordered[:, :-1]).any(dim=-1)


def symbols_per_code(codes: Tensor) -> Tensor:
    """(N, D) codes to how many symbols have each code that is there."""
    return torch.unique(codes, dim=0, return_counts=True)[1]


def colliding_pairs(codes: Tensor) -> int:
    """How many pairs among N symbols have equal (N, D) codes."""
    counts = symbols_per_code(codes)
    return int((counts * (counts - 1) // 2).sum())


def code_space_rows() -> list[Record]:
    """How much of the code space N symbols use: one-hot, binary codes, and the paper's other codes."""
    rows = []
    for symbols in (10, 1_000, 10_000, 1_000_000):
        length = math.ceil(math.log2(symbols))
        rows.append(_use("one-hot, N of 2^N", symbols, 2, symbols))
        rows.append(_use("K = 2, N of 2^D, shortest D", symbols, 2, length))
        rows.append(_use("K = 2, N of 2^D, twice as long", symbols, 2, 2 * length))
    rows.append(_use("compact, K = sqrt(N), D = 2 (LightRNN)", 10_000, 100, 2))
    rows.append(_use("the paper's look at codes", 10_000, 6, 4))
    rows.append(_use("the paper's language model", 10_000, 50, 10))
    rows.append(_use("the paper's billion symbols", *BILLION))
    return rows


def _use(name: str, symbols: int, size: int, length: int) -> Record:
    space = length * math.log10(size)
    return {
        "part": "code space",
        "code": name,
        "num_embeddings": symbols,
        "codebook_size": size,
        "code_length": length,
        "log10_codes": round(space, 3),
        "log10_symbols_per_code": round(math.log10(symbols) - space, 3),
        "every_symbol_can_differ": size**length >= symbols,
    }


def billion_row() -> Record:
    """The paper's example by the formula."""
    symbols, size, length = BILLION
    return {
        "part": "collisions by formula",
        "num_embeddings": symbols,
        "codebook_size": size,
        "code_length": length,
        "no_collision": chance_of_none(symbols, size**length),
        "paper": 0.995,
    }


def drawn_row(shape: tuple[int, int, int], trials: int, seed: int) -> Record:
    """How often N random codes are all different, beside what the formulas say."""
    symbols, size, length = shape
    codes = size**length
    draw = generator_for(seed, f"codes {size} {length}", symbols)
    none, left = 0, trials
    while left:  # some million numbers at a time
        now = min(left, max(1, 2_000_000 // (symbols * length)))
        none += int((~has_collision(slots(torch.randint(size, (now, symbols, length), generator=draw), size))).sum())
        left -= now
    exact = exact_chance_of_none(symbols, codes)
    error = math.sqrt(exact * (1 - exact) / trials)
    return {
        "part": "collisions drawn",
        "num_embeddings": symbols,
        "codebook_size": size,
        "code_length": length,
        "trials": trials,
        "no_collision": round(none / trials, 6),
        "formula": round(chance_of_none(symbols, codes), 6),
        "exact": round(exact, 6),
        "standard_error": round(error, 6),
        "deviation_in_errors": round((none / trials - exact) / error, 2) if error else 0.0,
    }


def learned_row(table: kdcode.VectorTable, size: int, length: int, epochs: int, seed: int) -> Record:
    """Collisions in codes that are learned for a table, beside codes drawn at random."""
    options = {"learner": "straight-through", "codebook_size": size, "code_length": length, "epochs": epochs}
    coded = kdcode.compress(table, **options, seed=seed)
    symbols = len(table)
    learned = torch.from_numpy(coded.codes.astype(np.int64))
    random = torch.randint(size, (symbols, length), generator=generator_for(seed, "random codes", length))
    return {
        "part": "collisions learned",
        "num_embeddings": symbols,
        "codebook_size": size,
        "code_length": length,
        "relative_error": coded.provenance["relative_error"],
        "pairs_learned": colliding_pairs(learned),
        "pairs_random": colliding_pairs(random),
        "pairs_random_expected": float(f"{symbols * (symbols - 1) / 2 / size**length:.4g}"),
        "distinct_share_learned": round(len(symbols_per_code(learned)) / symbols, 5),
        "distinct_share_random": round(len(symbols_per_code(random)) / symbols, 5),
    }


def length_for(symbols: int, size: int, redundancy: float = REDUNDANCY) -> int:
    """The D of the lemma, ⌈c · log N / log K⌉: as many codes as N^c."""
    # Exact powers, as N = 125 and K = 5, must not be rounded up by the last bit of a logarithm.
    return math.ceil(redundancy * math.log(symbols) / math.log(size) - 1e-9)


def spec_for(symbols: int, size: int, composition: str = "linear", codeword_dim: int | None = None) -> CodewordSpec:
    """The spec of a codec whose codes are as long as the lemma has them."""
    length = length_for(symbols, size)
    return CodewordSpec.named(composition, EMBEDDING_DIM, size, length, codeword_dim=codeword_dim)


def module_parameters(spec: CodewordSpec) -> int:
    """Numbers to learn in the library's module of a spec."""
    module = make_module(spec, device="meta")
    return sum(weight.numel() for weight in module.parameters())


def parameter_rows(exponents: range) -> list[Record]:
    """Parameters of modules as N grows, beside N · d."""
    kinds = (("linear", None), ("linear, H", SHORT_WORDS), ("lstm", None))
    rows = []
    for exponent in exponents:
        for name, codeword_dim in kinds:
            symbols = 10**exponent
            spec = spec_for(symbols, GROWTH_SIZE, name.split(",", maxsplit=1)[0], codeword_dim)
            counted = module_parameters(spec)
            rows.append(
                {
                    "part": "parameters",
                    "composition": name,
                    "num_embeddings": symbols,
                    "codebook_size": GROWTH_SIZE,
                    "code_length": spec.code_length,
                    "codeword_dim": spec.codeword_dim,
                    "parameters_of_module": counted,
                    "parameters_by_budget": spec.parameters,
                    "parameters_of_table": symbols * EMBEDDING_DIM,
                    "ratio": float(f"{counted / (symbols * EMBEDDING_DIM):.4g}"),
                    "bytes_of_packed_codes": spec.sizes(symbols).codes,
                }
            )
    return rows


def size_rows(symbols: int) -> list[Record]:
    """Parameters of linear modules over K at the same number of symbols, beside K / ln K."""
    rows = []
    for size in SIZES:
        spec = spec_for(symbols, size)
        smooth = REDUNDANCY * math.log(symbols) * size / math.log(size) * EMBEDDING_DIM
        rows.append(
            {
                "part": "codebook size",
                "num_embeddings": symbols,
                "codebook_size": size,
                "code_length": spec.code_length,
                "parameters_of_module": module_parameters(spec),
                "parameters_without_rounding": round(smooth),
            }
        )
    return rows


def draw(path: Path, rows: list[Record]) -> None:
    """Collisions, growth with N, and the choice of K, side by side."""
    parts = {name: [row for row in rows if row["part"] == name] for name in {row["part"] for row in rows}}
    with panels(path, 3, height=3.4) as (chances, growth, sizes):
        _draw_chances(chances, parts["collisions drawn"])
        _draw_growth(growth, parts["parameters"])
        by_size = parts["codebook size"]
        at = [row["codebook_size"] for row in by_size]
        counted = [row["parameters_of_module"] / 1e3 for row in by_size]
        smooth = [row["parameters_without_rounding"] / 1e3 for row in by_size]
        sizes.plot(at, smooth, color=COLORS[5], label="c · d · ln N · K / ln K")
        sizes.plot(at, counted, "o", color=COLORS[0], markersize=3.5, label="counted in modules")
        sizes.set(
            xlabel=f"K, for {by_size[0]['num_embeddings']:,} symbols", ylabel="parameters, thousands", ylim=(0, None)
        )
        least = min(by_size, key=lambda row: int(row["parameters_of_module"]))
        place = least["codebook_size"], least["parameters_of_module"] / 1e3
        text = f"least at K = {place[0]}"
        sizes.annotate(text, place, (place[0], place[1] - 4), ha="left", va="top", arrowprops={"arrowstyle": "-"})
        sizes.legend(fontsize=9, loc="lower right")


def _draw_chances(axis: Axes, drawn: list[Record]) -> None:
    for color, (size, length) in zip(COLORS, DRAWN, strict=False):
        shown = [row for row in drawn if (row["codebook_size"], row["code_length"]) == (size, length)]
        if not shown:
            continue
        symbols = [row["num_embeddings"] for row in shown]
        dense = np.geomspace(symbols[0] / 2, symbols[-1] * 1.5, 80)
        axis.plot(dense, [np.exp(-n * (n - 1) / (2 * size**length)) for n in dense], color=color, linewidth=1.2)
        errors = [2 * row["standard_error"] for row in shown]
        measured = [row["no_collision"] for row in shown]
        label = f"K = {size}, D = {length}"
        axis.errorbar(symbols, measured, yerr=errors, fmt="o", markersize=4, color=color, label=label, capsize=2)
    axis.set(xscale="log", xlabel="N, symbols", ylabel="probability of no collision", ylim=(-0.03, 1.03))
    axis.legend(fontsize=9, loc="lower left", title="drawn; lines: formula", title_fontsize=9)


def _draw_growth(axis: Axes, grown: list[Record]) -> None:
    first = [row for row in grown if row["composition"] == "linear"]
    symbols = [row["num_embeddings"] for row in first]
    axis.plot(symbols, [row["parameters_of_table"] for row in first], "--", color=COLORS[5], label="table, N · d")
    for color, name in zip(COLORS, dict.fromkeys(row["composition"] for row in grown), strict=False):
        counted = [row["parameters_of_module"] for row in grown if row["composition"] == name]
        axis.plot(symbols, counted, "o-", markersize=3.5, color=color, label=f"KD code, {LABELS[name]}")
    axis.set(xscale="log", yscale="log", xlabel="N, symbols", ylabel=f"parameters, d = {EMBEDDING_DIM}")
    axis.legend(fontsize=9, loc="upper left")


def main() -> None:
    """Count everything, write the results and draw them."""
    experiment = Experiment(__file__, __doc__)
    arguments = experiment.read_arguments()
    torch.set_num_threads(1)  # sums in the same order, however many processors there are
    tiny, seed = arguments.tiny, arguments.seed
    trials = 200 if tiny else 10_000
    rows = [*code_space_rows(), billion_row()]
    rows.append(drawn_row(SMALL_BILLION, 1_000 if tiny else 100_000, seed))
    for (size, length), counts in DRAWN.items():
        rows += [drawn_row((count, size, length), trials, seed) for count in (counts[:3] if tiny else counts)]
        experiment.say(f"drew codes of K = {size}, D = {length}")
    table, epochs = (glove_50d().head(300), 2) if tiny else (glove_50d(), 20)
    for size, length in LEARNED[:1] if tiny else LEARNED:
        rows.append(learned_row(table, size, length, epochs, seed))
        experiment.say("K = {codebook_size}, D = {code_length}: {pairs_learned} pairs".format(**rows[-1]))
    rows += [*parameter_rows(range(3, 9)), *size_rows(10**6)]
    settings = {"redundancy": REDUNDANCY, "embedding_dim": EMBEDDING_DIM, "table": "glove_50d", "epochs": epochs}
    experiment.write(settings, rows)
    draw(experiment.figure_path(), rows)
    _print(rows)


def _print(rows: list[Record]) -> None:
    for row in rows:
        if row["part"] == "code space":
            print("{code:<40} N {num_embeddings:>10}  10^{log10_symbols_per_code:g} symbols per code".format(**row))
        elif row["part"] == "collisions by formula":
            print("K {codebook_size} D {code_length} N {num_embeddings}: no collision {no_collision:.4%}".format(**row))
        elif row["part"] == "collisions drawn":
            line = (
                "K {codebook_size} D {code_length} N {num_embeddings}: drawn {no_collision:.4f}, formula {formula:.4f}"
            )
            print(line.format(**row))
        elif row["part"] == "collisions learned":
            line = (
                "K {codebook_size} D {code_length}: {pairs_learned} pairs share a learned code, {pairs_random} a random"
            )
            print(line.format(**row))
        elif row["part"] == "parameters":
            print("{composition:<10} N {num_embeddings:>10} D {code_length:>3}: {parameters_of_module}".format(**row))


if __name__ == "__main__":
    main()
