"""The levels and the class of each block: the best path through the trellis, and what fits."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import kdc_reader
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import transform_codec, weighted_codes

from kdcode.codec import Transform

STATES = (1, 32, 64, 128, 256)


def one_class(dim, states, rows=1, signs=True):
    """A codec with room for whatever the least sum of error and bits needs."""
    codec = transform_codec(dim, plain=True, states=states, rows_per_block=rows)
    codec = transform_codec(dim, plain=True, states=states) if signs and rows == 1 else codec
    return Transform(replace(codec.spec, lengths=(8 * rows * dim + 64,), mean_length=1.0), codec.stored)


def searched(codec, coordinates, trade=1.0, **how):
    """The multiples that rows of coordinates, in steps, become."""
    vectors = coordinates * codec.nominal_step + codec.stored["mean"]
    return codec.encode_blocks(vectors.astype(np.float32), None, trade, **how)


def path_of(multiples, states):
    """The quantizers of some multiples in a row and the state after them; None where they are of no path."""
    state, found = 0, []
    for multiple in multiples:
        quantizer = state % 2
        if multiple % 2 != (quantizer if multiple else 0):
            return None
        found.append(quantizer)
        state = kdc_reader.next_state(state, (abs(multiple) + (quantizer if multiple else 0)) // 2 % 2, states)
    return found, state


def contexts_of(codec):
    """(d,) contexts of coordinates in blocks of the one class."""
    own = np.repeat(codec.stored["group_contexts"], codec.stored["group_sizes"]).astype(int)
    return np.clip(own + int(codec.stored["class_contexts"][0]), 0, codec.spec.contexts - 1)


def cost_of(multiples, path, coordinates, codec, bits):
    """The squared error of multiples plus λ times their bits, and these bits."""
    places = np.arange(len(multiples)) % codec.spec.embedding_dim
    magnitudes = (np.abs(multiples) + np.array(path[0]) * (np.array(multiples) != 0)) // 2
    taken = bits[contexts_of(codec)[places], path[0], magnitudes].sum()
    return float(np.square(np.array(multiples) - coordinates).sum() + codec.trade * taken), float(taken)


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize(("dim", "rows"), [(1, 1), (5, 1), (6, 1), (2, 3)])
def test_no_other_path_costs_less(states, dim, rows):
    """All levels near the coordinates are tried, where a row is so short that this can be done.

    A state is reached by the path of the least squared error and λ times bits. Of all states that a block may end in,
    bits count half, since what they leave of the block is worth something.
    """
    random = np.random.default_rng(states + dim)
    codec = one_class(dim, states, rows)
    bits = np.empty((3, 2, 40), np.float32)
    codec.core.level_bits(bits)
    coordinates = (1.5 * random.normal(size=(3 * rows, dim))).astype(np.float32)
    if not codec.spec.signs:
        coordinates = np.abs(coordinates)
    found = searched(codec, coordinates).multiples
    for own, wanted in zip(found, coordinates.reshape(3, -1), strict=True):
        nearest = np.rint(wanted).astype(int)
        tried = [sorted({0, *range(n - 2, n + 3)} - set(range(-9, 0) if not codec.spec.signs else ())) for n in nearest]
        least: dict[int, tuple[float, float]] = {}
        for multiples in itertools.product(*tried):
            if (path := path_of(multiples, states)) is not None:
                cost = cost_of(multiples, path, wanted, codec, bits)
                least[path[1]] = min(cost, least.get(path[1], (np.inf, 0.0)))
        cost, taken = cost_of(own, path_of(own.tolist(), states), wanted, codec, bits)
        assert cost <= least[path_of(own.tolist(), states)[1]][0] + 1e-3
        best = min(total - codec.trade * spent / 2 for total, spent in least.values())
        assert cost - codec.trade * taken / 2 <= best + 1e-3


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    states=st.sampled_from(STATES),
    spread=st.sampled_from([0.0, 0.3, 2.0, 50.0, 1e4]),
    rows=st.sampled_from([1, 3]),
    plain=st.booleans(),
)
def test_levels_are_a_path_and_fit(seed, states, spread, rows, plain):
    codec = transform_codec(7, plain=plain, states=states, rows_per_block=rows)
    vectors = spread * np.random.default_rng(seed).normal(size=(11, 7))
    found = codec.encode_blocks(vectors.astype(np.float32))
    for block in found.multiples.tolist():
        assert path_of(block, states) is not None
        assert codec.spec.signs or min(block) >= 0
    codes = codec.encode(vectors)
    np.testing.assert_array_equal(codec.unpack(codec.pack(codes)), codes)


def test_longer_rows_have_longer_classes():
    codec = transform_codec(12)
    random = np.random.default_rng(0).normal(size=(200, 12))
    lengths = [np.array(codec.spec.lengths)[searched(codec, s * random).classes].mean() for s in (0.1, 1, 3, 10)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_more_trade_makes_shorter_rows():
    codec = transform_codec(12)
    random = 3 * np.random.default_rng(0).normal(size=(200, 12))
    lengths = [np.array(codec.spec.lengths)[searched(codec, random, t).classes].mean() for t in (0.1, 1, 10, 200)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_no_block_is_longer_than_it_may_be():
    codec = transform_codec(12)
    random = 5 * np.random.default_rng(0).normal(size=(100, 12))
    for longest in (4, 7, 14):
        assert max(codec.spec.lengths[own] for own in searched(codec, random, longest=longest).classes) <= longest


def test_signs_are_those_of_the_coordinates():
    codec = one_class(12, 64)
    random = 3 * np.random.default_rng(0).normal(size=(100, 12))
    found = searched(codec, random).multiples
    assert (found * random >= 0).all()
    np.testing.assert_array_equal(searched(codec, -random).multiples, -found)


def test_batches_do_not_change_codes():
    codec = transform_codec(20, centroids=5)
    vectors = np.random.default_rng(0).normal(size=(150, 20)).astype(np.float32)
    whole = weighted_codes(codec, vectors)
    for step in (1, 7, 64, 149):
        parts = [codec.encode(vectors[start : start + step]) for start in range(0, 150, step)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from sample_tables import decode_packed, transform_codec
digest = hashlib.sha256()
random = np.random.default_rng(0)
for changes in ({}, {"plain": True}, {"rows_per_block": 3}, {"centroids": 7}, {"rows_per_block": 4, "plain": True}):
    for dim, states in ((1, 32), (7, 1), (40, 64), (100, 128), (33, 256)):
        codec = transform_codec(dim, states=states, **changes)
        vectors = random.normal(size=(67, dim)) * random.choice([0.2, 1, 2, 100], size=(67, 1))
        codes = codec.encode(vectors.astype(np.float32))
        packed = codec.pack(codes)
        for found in (codes, packed, codec.unpack(packed), decode_packed(codec, packed), codec.decode(codes)):
            digest.update(np.ascontiguousarray(found).tobytes())
print(digest.hexdigest())
"""


def test_instruction_sets_give_the_same_codes_and_vectors_to_the_bit():
    folder, found = str(Path(kdc_reader.__file__).parent), {}
    for isa in ("plain", "avx2", "avx512", "neon"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, folder],
            env={**os.environ, "KDCODE_ISA": isa, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or f"KDCODE_ISA is {isa}, but" in done.stderr, done.stderr
        if done.returncode == 0:
            found[isa] = done.stdout
    assert "plain" in found
    assert len(set(found.values())) == 1, found
