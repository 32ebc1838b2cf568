import itertools

import numpy as np
import pytest
from sample_tables import coded_table, composition

from kdcode import encoding
from kdcode.composition import Linear, Product
from kdcode.errors import OptionError


def errors(vectors, codes, codebook, used):
    return np.square(vectors - used.compose(codes, codebook)).sum(axis=1)


def every_code(codebook):
    length, size, _ = codebook.shape
    return np.array(list(itertools.product(range(size), repeat=length)))


def random_task(kind, *, rows=200, length=4, size=8, dim=6, seed=0):
    random = np.random.default_rng(seed)
    width = {"linear": dim, "projected": 4, "lstm": 5, "product": -(-dim // length)}.get(kind, -(-dim // 2))
    codebook = random.normal(size=(length, size, width)).astype(np.float32)
    return random.normal(size=(rows, dim)).astype(np.float32), codebook, composition(kind, width, dim)


@pytest.mark.parametrize("kind", ["linear", "projected", "product", "grouped", "turned", "lstm"])
def test_planted_codes_are_found_again(kind):
    # Codewords that get shorter from position to position leave one code per vector, as residual codebooks do.
    random = np.random.default_rng(0)
    _, codebook, used = random_task(kind, dim=12)
    if kind != "product":
        codebook *= 4.0 ** -np.arange(4, dtype=np.float32)[:, None, None]
    planted = random.integers(0, 8, size=(100, 4))
    found = encoding.encode(used.compose(planted, codebook), codebook, used)
    np.testing.assert_array_equal(found, planted)


def test_order_of_the_positions_is_no_matter():
    random = np.random.default_rng(0)
    codebook = random.normal(size=(4, 8, 12)) * 4.0 ** -np.array([2, 0, 3, 1])[:, None, None]
    codebook = codebook.astype(np.float32) + random.normal(size=(4, 1, 12)).astype(np.float32)  # and means of their own
    planted = random.integers(0, 8, size=(100, 4))
    found = encoding.encode(Linear(12).compose(planted, codebook), codebook, Linear(12), sweeps=0)
    np.testing.assert_array_equal(found, planted)


def test_product_codes_are_the_best_there_are():
    vectors, codebook, used = random_task("product", rows=30, length=3, size=5, dim=7)
    tried = used.compose(every_code(codebook), codebook)
    best = np.square(vectors[:, None] - tried).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(
        errors(vectors, encoding.encode(vectors, codebook, used), codebook, used), best, rtol=1e-4
    )


@pytest.mark.parametrize("kind", ["linear", "projected", "lstm"])
def test_a_beam_as_wide_as_all_codes_finds_the_best(kind):
    vectors, codebook, used = random_task(kind, rows=30, length=3, size=4)
    tried = used.compose(every_code(codebook), codebook)
    best = np.square(vectors[:, None] - tried).sum(axis=2).min(axis=1)
    found = encoding.encode(vectors, codebook, used, beam=64, sweeps=0)
    np.testing.assert_allclose(errors(vectors, found, codebook, used), best, rtol=1e-4)


def test_a_beam_of_one_is_greedy():
    vectors, codebook, used = random_task("linear", rows=50)
    codebook -= codebook.mean(axis=1, keepdims=True)
    codebook *= 2.0 ** -np.arange(4, dtype=np.float32)[:, None, None]
    residual, greedy = vectors.copy(), []
    for words in codebook:
        chosen = np.square(residual[:, None] - words).sum(axis=2).argmin(axis=1)
        residual -= words[chosen]
        greedy.append(chosen)
    np.testing.assert_array_equal(encoding.encode(vectors, codebook, used, beam=1, sweeps=0), np.stack(greedy, axis=1))


@pytest.mark.parametrize("kind", ["linear", "projected", "lstm"])
@pytest.mark.parametrize("seed", range(3))
def test_more_work_is_never_worse(kind, seed):
    vectors, codebook, used = random_task(kind, rows=100, seed=seed)

    def of(beam, sweeps):
        return errors(vectors, encoding.encode(vectors, codebook, used, beam=beam, sweeps=sweeps), codebook, used)

    for beam in (1, 4):
        plain, refined = of(beam, 0), of(beam, 4)
        assert (refined <= plain * (1 + 1e-5) + 1e-6).all()  # row by row
        assert refined.mean() < plain.mean()
    assert of(8, 0).mean() <= of(1, 0).mean()
    assert of(8, 4).mean() <= of(1, 4).mean()


@pytest.mark.parametrize("kind", ["linear", "lstm"])
def test_chunks_do_not_change_the_codes(kind, monkeypatch):
    vectors, codebook, used = random_task(kind, rows=40)
    whole = encoding.encode(vectors, codebook, used)
    monkeypatch.setattr(encoding, "_CHUNK_FLOATS", 1000)
    monkeypatch.setattr(encoding, "_LSTM_CHUNK_FLOATS", 1000)
    np.testing.assert_array_equal(encoding.encode(vectors, codebook, used), whole)


@pytest.mark.parametrize(
    ("kept", "size", "beam"), [(8, 256, 8), (1, 256, 8), (5, 48, 3), (5, 50, 3), (8, 50, 8), (2, 3, 8)]
)
def test_the_cheapest_of_a_beam_are_found(kept, size, beam):
    costs = np.random.default_rng(0).normal(size=(60, kept, size)).astype(np.float32)
    parents, chosen, found = encoding._best(costs, beam)
    np.testing.assert_array_equal(np.sort(found), np.sort(costs.reshape(60, -1))[:, :beam])
    np.testing.assert_array_equal(costs[np.arange(60)[:, None], parents, chosen], found)


def test_no_vectors_give_no_codes():
    _, codebook, used = random_task("linear")
    assert encoding.encode(np.empty((0, 6), np.float32), codebook, used).shape == (0, 4)


@pytest.mark.parametrize("kind", ["linear", "projected", "product", "grouped", "lstm"])
def test_one_vector_and_a_batch(kind):
    coded = coded_table(kind, rows=20)
    vectors = coded.decode(np.arange(20))
    batch = coded.encode(vectors)
    assert batch.shape == (20, 3)
    assert coded.encode(vectors[4]).shape == (3,)
    np.testing.assert_array_equal(coded.encode(vectors[4]), batch[4])
    assert coded.encode(vectors[4].tolist(), beam=1, sweeps=0).shape == (3,)


@pytest.mark.parametrize("wrong", [np.ones(5), np.ones((2, 5)), np.ones((1, 1, 6)), [np.nan] * 6, [1e39] * 6, 3.0])
def test_vectors_that_do_not_fit_are_refused(wrong):
    with pytest.raises(OptionError, match="finite vectors of size 6"):
        coded_table().encode(wrong)


@pytest.mark.parametrize(("beam", "sweeps"), [(0, 1), (1, -1)])
def test_senseless_effort_is_refused(beam, sweeps):
    with pytest.raises(OptionError, match=f"got {beam} and {sweeps}"):
        coded_table().encode(np.ones(6), beam=beam, sweeps=sweeps)


def test_a_composition_of_another_kind_is_refused():
    class Other(Product):
        pass

    codebook = np.zeros((2, 2, 3), np.float32)
    assert encoding.encode(np.zeros((1, 6), np.float32), codebook, Other(6)).shape == (1, 2)
    with pytest.raises(OptionError, match="no code search is written for object"):
        encoding.encode(np.zeros((1, 6), np.float32), codebook, object())
