import numpy as np
import pytest
import torch
from sample_tables import coded_table

from kdcode import encoding
from kdcode.coded import CodedTable
from kdcode.composition import Linear
from kdcode.errors import OptionError
from kdcode.learning import code_search
from kdcode.learning.beam import _smallest_few, encode, encode_sums


def task(rows=300, length=5, size=32, dim=8):
    draw = np.random.default_rng(0)
    words = draw.normal(size=(length, size, dim)).astype(np.float32) + 0.5
    return draw.normal(size=(rows, dim)).astype(np.float32) * 2, words


def errors(vectors, codes, words):
    return np.square(vectors - Linear(words.shape[2]).compose(codes, words)).sum(axis=1)


@pytest.mark.parametrize(("beam", "sweeps"), [(1, 0), (6, 0), (8, 4)])
@pytest.mark.parametrize("tables", [True, False])
def test_codes_are_as_good_as_those_of_the_numpy_search(beam, sweeps, tables, monkeypatch):
    if not tables:
        monkeypatch.setattr(code_search, "_MOST_TABLE_FLOATS", 0)
    vectors, words = task()
    ours = encode_sums(torch.from_numpy(vectors), torch.from_numpy(words), beam=beam, sweeps=sweeps).numpy()
    theirs = encoding.encode(vectors, words, Linear(8), beam=beam, sweeps=sweeps)
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


def test_a_table_encodes_new_vectors():
    _, words = task()
    vectors, _ = task(rows=40)
    coded = CodedTable.from_codes(None, np.zeros((3, 5), dtype=np.int64), words)
    codes = encode(coded, vectors, beam=4)
    assert codes.shape == (40, 5)
    assert errors(vectors, codes, words).mean() < 1.02 * errors(vectors, coded.encode(vectors, beam=4), words).mean()
    np.testing.assert_array_equal(encode(coded, vectors[0]), encode(coded, vectors[:1]))
    with pytest.raises(OptionError, match=r"expected finite vectors of size 8, got shape \(1, 3\)"):
        encode(coded, np.ones(3))
    with pytest.raises(OptionError, match="got 0 and 1"):
        encode(coded, vectors, beam=0, sweeps=1)


def test_an_lstm_takes_the_numpy_way():
    coded = coded_table("lstm")
    vectors = np.random.default_rng(0).normal(size=(7, coded.embedding_dim)).astype(np.float32)
    np.testing.assert_array_equal(encode(coded, vectors), coded.encode(vectors))


@pytest.mark.parametrize("kind", ["linear", "projected", "product", "grouped", "turned", "shared", "scaled", "lstm"])
def test_every_kind_of_table_encodes_as_well_as_in_numpy(kind):
    coded = coded_table(kind, length=4, size=16, dim=8)
    vectors = np.random.default_rng(1).normal(size=(100, 8)).astype(np.float32)
    vectors.flags.writeable = False  # as of a mapped file
    near = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if kind == "scaled" else vectors
    ours, theirs = (
        np.square(near - coded.compose(codes)).sum(axis=1).mean()
        for codes in (encode(coded, vectors, beam=4), coded.encode(vectors, beam=4))
    )
    assert ours == pytest.approx(theirs, rel=0.05)


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
