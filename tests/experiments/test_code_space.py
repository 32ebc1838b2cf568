from __future__ import annotations

import json
import math
from fractions import Fraction

import code_space
import pytest
import torch

from kdcode.codec_torch import make_module
from kdcode.nn import KDEmbedding


def by_part(result):
    parts = {}
    for row in result["rows"]:
        parts.setdefault(row["part"], []).append(row)
    return parts


def test_the_birthday_of_23_people():
    exact = Fraction(1)
    for place in range(23):
        exact *= Fraction(365 - place, 365)
    assert code_space.exact_chance_of_none(23, 365) == pytest.approx(float(exact))
    assert code_space.chance_of_none(23, 365) == pytest.approx(float(exact), abs=0.01)
    assert code_space.exact_chance_of_none(366, 365) == 0


def test_codes_are_digits_of_numbers():
    codes = torch.tensor([[0, 0, 0], [2, 0, 0], [0, 1, 0], [4, 4, 4]])
    assert code_space.slots(codes, 5).tolist() == [0, 2, 5, 124]


def test_collisions_are_counted_in_pairs():
    codes = torch.tensor([[1, 2], [2, 1], [1, 2], [0, 0], [1, 2], [0, 0]])
    assert code_space.colliding_pairs(codes) == 4  # three symbols make three pairs, two make one
    assert sorted(code_space.symbols_per_code(codes).tolist()) == [1, 2, 3]
    assert code_space.has_collision(torch.tensor([[3, 1, 3], [3, 1, 2]])).tolist() == [True, False]


@pytest.mark.parametrize(("symbols", "size", "length"), [(10**6, 10, 12), (125, 5, 6), (100, 3, 9), (1025, 2, 21)])
def test_the_length_of_the_lemma_gives_room_for_the_square_of_n(symbols, size, length):
    assert code_space.length_for(symbols, size) == length
    assert size**length >= symbols**2 > size ** (length - 1)


@pytest.mark.parametrize(("composition", "codeword_dim"), [("linear", None), ("linear", 20), ("lstm", None)])
def test_modules_on_the_meta_device_count_as_real_ones_do(composition, codeword_dim):
    spec = code_space.spec_for(1000, 32, composition, codeword_dim)
    real = KDEmbedding.from_codes(
        torch.zeros(1000, spec.code_length, dtype=torch.long),
        32,
        code_space.EMBEDDING_DIM,
        composition=make_module(spec),
    )
    counted = sum(weight.numel() for weight in real.parameters())
    assert code_space.module_parameters(spec) == counted == spec.parameters


def check(result):
    parts = by_part(result)
    one_hot = next(row for row in parts["code space"] if row["num_embeddings"] == 10)
    assert one_hot["log10_symbols_per_code"] == pytest.approx(math.log10(10 / 2**10), abs=1e-3)
    (billion,) = parts["collisions by formula"]
    assert round(billion["no_collision"], 3) == 0.995 == billion["paper"]
    for row in parts["collisions drawn"]:
        assert abs(row["deviation_in_errors"]) < 4.5
        assert row["formula"] == pytest.approx(row["exact"], abs=0.01)
    for row in parts["parameters"]:
        assert row["parameters_of_module"] == row["parameters_by_budget"]
    grown = [row for row in parts["parameters"] if row["composition"] == "linear"]
    assert grown[-1]["parameters_of_table"] == 10**5 * grown[0]["parameters_of_table"]
    assert grown[-1]["parameters_of_module"] < 3 * grown[0]["parameters_of_module"]
    for row in grown:  # within one position of a multiple of log N
        exact = 2 * math.log(row["num_embeddings"]) / math.log(32) * 32 * 200
        assert 0 <= row["parameters_of_module"] - exact <= 32 * 200
    best = min(parts["codebook size"], key=lambda row: row["parameters_of_module"])
    assert best["codebook_size"] == 3
    return parts


def test_a_tiny_run_writes_what_was_kept(run_tiny, committed):
    folder, printed = run_tiny("code_space", "--seed", "5")
    result = json.loads((folder / "results" / "code_space.json").read_text())
    parts = check(result)
    assert result["settings"]["seed"] == 5
    assert "no collision 99.5" in printed
    assert (folder / "figures" / "code_space.svg").stat().st_size > 10_000
    kept = committed("code_space")
    kept_parts = check(kept)
    assert not kept["settings"]["tiny"]
    assert result.keys() >= kept.keys()  # older results lack where they are from
    assert {name: rows[0].keys() for name, rows in parts.items()} == {
        name: rows[0].keys() for name, rows in kept_parts.items()
    }
    assert {"numpy", "torch", "kdcode"} <= kept["versions"].keys()
    assert kept["date"]


def test_the_kept_result_shows_how_rare_collisions_are(committed):
    parts = by_part(committed("code_space"))
    small = parts["collisions drawn"][0]
    assert small["trials"] == 100_000
    assert small["no_collision"] == pytest.approx(0.995, abs=0.001)
    learned = {(row["codebook_size"], row["code_length"]): row for row in parts["collisions learned"]}
    assert learned[32, 16]["pairs_random"] == 0
    assert learned[32, 16]["distinct_share_learned"] > 0.999
    for row in learned.values():  # words that are alike get like codes
        assert row["pairs_learned"] >= row["pairs_random"]
        assert row["pairs_random"] == pytest.approx(
            row["pairs_random_expected"], abs=4 * math.sqrt(row["pairs_random_expected"]) + 1
        )
