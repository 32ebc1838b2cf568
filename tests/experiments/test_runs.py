"""Means over seeds, what is below the noise, and sizes beside the paper's."""

from __future__ import annotations

import json

import pytest
import runs
import sweeps
import table_1
from runs import Spread, is_noise, spread
from table_1_rows import PAPER

from kdcode import CompressOptions


def test_mean_and_deviation_by_hand():
    found = spread([{"x": 1.0}, {"x": 2.0}, {"x": 6.0}], "x")
    assert (found.mean, found.count) == (3, 3)
    assert found.deviation == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert found.shown() == "3.0 ± 2.6"
    assert spread([{"x": 1.25}], "x").shown(2) == "1.25"


def test_a_difference_within_two_standard_errors_is_noise():
    one, other = Spread(100.0, 3.0, 9), Spread(102.7, 3.0, 9)  # the error of the difference is 2 ** 0.5
    assert is_noise(one, other)
    assert not is_noise(one, other._replace(mean=103.0))
    assert is_noise(one, Spread(101, None, 1))
    assert is_noise(Spread(1.0, None, 1), Spread(2.0, None, 1)) is None


@pytest.mark.parametrize("model", ["small", "large-shortened"])
def test_sizes_are_those_of_the_codec_and_of_the_paper(model):
    dim, column = table_1.HIDDEN[model], list(table_1.HIDDEN).index(model)
    for composition in ("linear", "lstm"):
        spec = CompressOptions(50, 10, composition=composition, codeword_dim=200).spec(dim)
        count = 0
        for shape in spec.weight_shapes().values():
            size = 1
            for length in shape:
                size *= length
            count += size
        assert table_1.numbers_of(composition, dim) == count
    assert table_1.numbers_of("linear", dim) / 1e6 == PAPER["linear-linear"][column][1]
    assert round(table_1.numbers_of("shared-lstm", dim) / 1e6, 2) == PAPER["lstm-lstm"][column][1]


def written(folder, row, seed, **measures):
    folder.mkdir(parents=True, exist_ok=True)
    result = {"seed": seed, "seconds": 60.0, "rows": [{"row": row, **measures}]}
    (folder / f"{row}-seed{seed}.json").write_text(json.dumps(result))


def test_rows_of_several_seeds_are_told_with_their_noise(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    monkeypatch.setattr(table_1, "BEFORE", tmp_path / "none.json")
    folder = tmp_path / "ptb_perplexity-small"
    for row, values in {
        "conventional": (100, 101, 102),
        "linear-linear": (100.5, 101, 102),
        "random-linear": (120, 121, 122),
    }.items():
        for seed, value in enumerate(values):
            written(folder, row, seed, test_perplexity=value, train_perplexity=50, embedding_parameters=7, ratio=0.05)
    full, random, learned = table_1.lines("small")
    assert full.ours == "101.0 ± 1.0, train 50.0 ± 0.0; 7 numbers, 0.05; 3 seeds"
    assert learned.verdict == "level with the full table, below the noise; in the paper 3% worse"
    assert random.verdict == "20% worse; in the paper 26% worse"
    assert random.paper == "144.3 (+26%); 0.1M, 0.05"
    assert table_1.lines("large-shortened") == []


def test_the_end_of_a_sweep_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    for point in sweeps.POINTS:
        for seed in range(3):
            noise = 0.1 * seed
            if point == sweeps.FULL:
                written(tmp_path / "vary_k_d", "full table", seed, short_test_perplexity=209 + noise)
                continue
            size, length = map(int, point.split("x"))
            value = 180 + noise + (20 if 4 in (size, length) else 0) + (5 if size == 256 else 0)
            written(
                tmp_path / "vary_k_d",
                point,
                seed,
                codebook_size=size,
                code_length=length,
                relative_error=1 / size / length,
                short_test_perplexity=value,
            )
    (by_length, by_size), seconds = sweeps.sweeps()
    assert seconds == 60 * 3 * len(sweeps.POINTS)
    assert sweeps.in_words(by_size).endswith("185.1 ± 0.1 at 256, a rise above the noise (full: 209.1 ± 0.1; 3 seeds)")
    assert sweeps.verdict(by_size) == "holds below K = 8"
    assert "lowest at 2 with 180.1" in sweeps.in_words(by_length)
    sweeps.draw(tmp_path / "figure.svg", [by_length, by_size])
    assert (tmp_path / "figure.svg").stat().st_size > 1000
