"""Beam search in torch against the numpy twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sample_tables import KINDS, codec_of, coded_table

from kdcode.codec import beam_search as numpy_search
from kdcode.codec_torch import icm
from kdcode.codec_torch.beam_search import _smallest_few, encode, encode_sums
from kdcode.errors import OptionError


def task(rows=300, length=5, size=32, dim=8):
    draw = np.random.default_rng(0)
    words = draw.normal(size=(length, size, dim)).astype(np.float32) + 0.5
    return draw.normal(size=(rows, dim)).astype(np.float32) * 2, words


def errors(vectors, codes, words):
    sums = sum(words[position][codes[:, position]] for position in range(len(words)))
    return np.square(vectors - sums).sum(axis=1)


@pytest.mark.parametrize(("beam", "sweeps"), [(1, 0), (6, 0), (8, 4)])
@pytest.mark.parametrize("tables", [True, False])
def test_codes_are_as_good_as_those_of_the_numpy_search(beam, sweeps, tables, monkeypatch):
    if not tables:
        monkeypatch.setattr(icm, "_MOST_TABLE_FLOATS", 0)
    vectors, words = task()
    ours = encode_sums(torch.from_numpy(vectors), torch.from_numpy(words), beam=beam, sweeps=sweeps).numpy()
    theirs = numpy_search.encode_sums(vectors, words, beam, sweeps)
    here, there = errors(vectors, ours, words), errors(vectors, theirs, words)
    if sweeps == 0:
        np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-3)
    assert here.mean() == pytest.approx(there.mean(), rel=0.03)


@pytest.mark.parametrize(("most", "width"), [(64, 3), (4096, 16), (4096, 1), (30, 4), (8, 20), (700, 5)])
def test_the_smallest_few_are_found(most, width):
    costs = torch.randn(50, most, generator=torch.Generator().manual_seed(1))
    found, places = _smallest_few(costs, width)
    exact = costs.sort(dim=1).values[:, :width]
    torch.testing.assert_close(found.sort(dim=1).values, exact, rtol=2**-13, atol=1e-6)
    torch.testing.assert_close(costs.gather(1, places), found)


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_every_kind_of_codec_encodes_as_well_as_in_numpy(kind, dtype):
    codec = codec_of(kind, dtype, size=16, dim=8)
    vectors = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
    vectors.flags.writeable = False  # as of a mapped file
    ours, theirs = encode(codec, vectors, beam=4), codec.encode(vectors, beam=4)
    assert ours.shape == theirs.shape == (60, len(codec.spec.widths))
    near, far = (np.square(vectors - codec.decode(codes)).sum() for codes in (ours, theirs))
    assert near == pytest.approx(far, rel=0.05)
    assert near < 0.9 * np.square(vectors - codec.decode(theirs[::-1])).sum()


@pytest.mark.parametrize("kind", ["linear", "scaled-rotated", "lstm"])
def test_one_vector_and_many_have_the_shapes_of_the_table_itself(kind):
    coded = coded_table(kind)
    vectors = np.random.default_rng(0).normal(size=(7, coded.embedding_dim)).astype(np.float32)
    for given in (vectors, vectors[:1], vectors[0]):
        assert encode(coded.codec, given).shape == coded.encode(given).shape
    np.testing.assert_array_equal(encode(coded.codec, vectors[0]), encode(coded.codec, vectors[:1])[0])


def test_an_lstm_takes_the_numpy_way():
    codec = codec_of("lstm")
    vectors = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
    np.testing.assert_array_equal(encode(codec, vectors), codec.encode(vectors))


def test_vectors_and_searches_that_cannot_be_are_refused():
    codec = codec_of(dim=8)
    with pytest.raises(OptionError, match=r"expected vectors of shape \(8,\) or \(rows, 8\), got shape \(3,\)"):
        encode(codec, np.ones(3))
    with pytest.raises(OptionError, match="got 0 and 1"):
        encode(codec, np.ones(8), beam=0, sweeps=1)


@pytest.mark.parametrize("factor", [1e-30, 1e-7, 1e6, 1e30])
def test_the_size_of_numbers_is_no_matter(factor):
    codec = codec_of("product", size=8)
    vectors = codec.decode(np.random.default_rng(0).integers(0, 8, size=(40, 4)))
    scaled = codec.scaled(factor)
    codes = encode(scaled, vectors * np.float32(factor))
    np.testing.assert_array_equal(codes, encode(codec, vectors))
    np.testing.assert_allclose(scaled.decode(codes), vectors * np.float32(factor), rtol=1e-4)


def test_rows_keep_codes_that_are_nearer():
    vectors, words = map(torch.from_numpy, task())
    good = encode_sums(vectors, words, beam=16, sweeps=4)
    before = torch.zeros_like(good, dtype=torch.uint8)
    before[:100] = good[:100].to(torch.uint8)
    found = encode_sums(vectors, words, beam=1, before=before)
    assert found.dtype == torch.uint8
    anew = encode_sums(vectors, words, beam=1)

    def missed(codes):
        return errors(vectors.numpy(), codes.numpy().astype(np.int64), words.numpy())

    np.testing.assert_allclose(missed(found), np.minimum(missed(before), missed(anew)), rtol=1e-4)
    assert (missed(found)[:100] < 0.999 * missed(anew)[:100]).any()
