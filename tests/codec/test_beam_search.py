"""Code search: beam search and ICM, against exhaustive search and planted codes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sample_tables import CODEWORD_NAMES, NAMES, codec_of, codec_with, coded_table, random_codes, spec_of

from kdcode.codec import CodewordSpec, codec_from_tensors, lstm, make_codec, sum_search
from kdcode.codec.lstm import smallest_costs
from kdcode.codec.sum_search import SumSearch

PLAIN = [name for name in CODEWORD_NAMES if "scaled" not in name]


def errors(vectors, codes, codec):
    return np.square(vectors - codec.decode(codes)).sum(axis=1)


def best_errors(vectors, codec):
    """The smallest error that any code has, by trying all of them."""
    spec = codec.spec
    tried = codec.decode(np.array(list(itertools.product(range(spec.codebook_size), repeat=spec.code_length))))
    return np.square(vectors[:, None] - tried).sum(axis=2).min(axis=1)


def random_task(kind, *, rows=200, length=4, size=8, dim=7, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    return vectors, codec_of(kind, length=length, size=size, dim=dim, seed=seed)


@pytest.mark.parametrize("kind", PLAIN)
def test_planted_codes_are_found_again(kind):
    # Codewords that get shorter from position to position leave one code per vector, as residual codebooks do.
    spec = spec_of(kind, size=8, dim=12)
    if kind == "lstm":
        spec = CodewordSpec.named("lstm", 12, 8, 4, codeword_dim=5, codebook_dtype="float32")
    weights = codec_with(spec, seed=1).weights()
    if "product" not in kind:
        weights["codebook"] = weights["codebook"] * 4.0 ** -np.arange(4, dtype=np.float32)[:, None, None]
    codec = make_codec(spec, weights)
    planted = random_codes(spec, 100)
    np.testing.assert_array_equal(codec.encode(codec.decode(planted)), planted)


@pytest.mark.parametrize("kind", [name for name in NAMES if "scaled" in name])
def test_positions_are_searched_by_direction_and_levels_by_length(kind):
    vectors, codec = random_task(kind, length=3)
    bare = codec_from_tensors(
        replace(codec.spec, scale_bits=0),
        {key: value for key, value in codec.tensors().items() if key != "scale_levels"},
    )
    lengths = np.linalg.norm(vectors, axis=1)
    codes = codec.encode(vectors)
    np.testing.assert_array_equal(codes[:, :3], bare.encode(vectors / lengths[:, None]))
    ratios = lengths / np.linalg.norm(bare.decode(codes[:, :3]), axis=1)
    distances = np.abs(np.log(ratios)[:, None] - np.log(codec.stored["scale_levels"]))
    np.testing.assert_array_equal(codes[:, 3], distances.argmin(axis=1))
    np.testing.assert_array_equal(codec.encode(vectors * 2)[:, :3], codes[:, :3])


def test_the_order_of_the_positions_does_not_matter():
    random = np.random.default_rng(0)
    codebook = random.normal(size=(4, 8, 12)) * 4.0 ** -np.array([2, 0, 3, 1])[:, None, None]
    codebook += random.normal(size=(4, 1, 12))  # and means of their own
    codec = make_codec(spec_of("linear", size=8, dim=12), {"codebook": codebook})
    planted = random.integers(0, 8, size=(100, 4))
    np.testing.assert_array_equal(codec.encode(codec.decode(planted), sweeps=0), planted)


@pytest.mark.parametrize("kind", ["product", "rotated-product"])
def test_product_codes_are_the_best_there_are(kind):
    vectors, codec = random_task(kind, rows=30, length=3, size=5)
    found = codec.encode(vectors, beam=1, sweeps=0)
    np.testing.assert_allclose(errors(vectors, found, codec), best_errors(vectors, codec), rtol=1e-4)


@pytest.mark.parametrize("kind", PLAIN)
def test_a_beam_as_wide_as_all_codes_finds_the_best(kind):
    vectors, codec = random_task(kind, rows=30, length=3, size=4)
    found = codec.encode(vectors, beam=64, sweeps=0)
    np.testing.assert_allclose(errors(vectors, found, codec), best_errors(vectors, codec), rtol=1e-4)


def test_a_beam_of_one_is_greedy():
    vectors, codec = random_task("linear", rows=50)
    codebook = codec.codebook - codec.codebook.mean(axis=1, keepdims=True)
    codebook *= 2.0 ** -np.arange(4, dtype=np.float32)[:, None, None]
    residual, greedy = vectors.copy(), []
    for words in codebook:
        chosen = np.square(residual[:, None] - words).sum(axis=2).argmin(axis=1)
        residual -= words[chosen]
        greedy.append(chosen)
    np.testing.assert_array_equal(SumSearch(codebook).encode(vectors, beam=1), np.stack(greedy, axis=1))


@pytest.mark.parametrize("kind", ["linear", "projected", "grouped", "rotated-grouped", "lstm"])
@pytest.mark.parametrize("seed", range(3))
def test_more_work_is_never_worse(kind, seed):
    vectors, codec = random_task(kind, rows=100, seed=seed)

    def of(beam, sweeps):
        return errors(vectors, codec.encode(vectors, beam=beam, sweeps=sweeps), codec)

    for beam in (1, 4):
        plain, refined = of(beam, 0), of(beam, 4)
        assert (refined <= plain * (1 + 1e-5) + 1e-6).all()  # row by row
    assert of(1, 4).mean() < of(1, 0).mean()
    assert of(8, 0).mean() <= of(1, 0).mean()
    assert of(8, 4).mean() <= of(1, 4).mean()


@pytest.mark.parametrize("kind", NAMES)
def test_chunks_do_not_change_the_codes(kind, monkeypatch):
    vectors, codec = random_task(kind, rows=40)
    whole = codec.encode(vectors)
    monkeypatch.setattr(sum_search, "_WORK", 1000)
    monkeypatch.setattr(lstm, "_CHUNK_FLOATS", 1000)
    monkeypatch.setattr("kdcode.codec.transform.codec.WORK_A_CALL", 1000)
    np.testing.assert_array_equal(codec.encode(vectors), whole)


@pytest.mark.parametrize(
    ("kept", "size", "beam"), [(8, 256, 8), (1, 256, 8), (5, 48, 3), (5, 50, 3), (8, 50, 8), (2, 3, 8)]
)
def test_the_cheapest_of_a_beam_are_found(kept, size, beam):
    costs = np.random.default_rng(0).normal(size=(60, kept, size)).astype(np.float32)
    parents, chosen, found = smallest_costs(costs, beam)
    np.testing.assert_array_equal(np.sort(found), np.sort(costs.reshape(60, -1))[:, :beam])
    np.testing.assert_array_equal(costs[np.arange(60)[:, None], parents, chosen], found)


@pytest.mark.parametrize("kind", NAMES)
def test_a_table_encodes_as_its_codec_does(kind):
    coded = coded_table(kind, rows=20)
    vectors = coded.decode(np.arange(20))
    np.testing.assert_array_equal(coded.encode(vectors), coded.codec.encode(vectors))
    np.testing.assert_array_equal(
        coded.encode(vectors, beam=1, sweeps=0), coded.codec.encode(vectors, beam=1, sweeps=0)
    )
