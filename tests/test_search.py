import tracemalloc

import numpy as np
import pytest
from sample_tables import KINDS, NAMES, coded_table, words

from kdcode import CodedTable, search
from kdcode.codec import CodecSpec, make_codec
from kdcode.errors import OptionError, UnknownSymbolError


def linear_table(symbols, codes, codebook):
    """A table of one position, whose rows are codewords."""
    _, size, dim = np.shape(codebook)
    spec = CodecSpec.named("linear", dim, size, 1, codebook_dtype="float32")
    return CodedTable.from_codes(symbols, np.array(codes), make_codec(spec, {"codebook": np.asarray(codebook)}))


def brute_force(coded, query, metric, leave_out=None):
    """(row, score) of every row, nearest first, from the decoded table in float64."""
    vectors = coded.to_table().matrix.astype(np.float64)
    query = np.asarray(query, dtype=np.float64)
    scores = {
        "dot": vectors @ query,
        "l2": np.linalg.norm(vectors - query, axis=1),
        "cosine": vectors @ query / np.maximum(np.linalg.norm(vectors, axis=1) * np.linalg.norm(query), 1e-12),
    }[metric]
    rows = sorted(range(len(coded)), key=lambda row: (scores[row] if metric == "l2" else -scores[row], row))
    return [(row, scores[row]) for row in rows if row != leave_out]


@pytest.mark.parametrize("metric", search.METRICS)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_all_metrics_agree_with_brute_force(kind, dtype, metric):
    coded = coded_table(kind, dtype, rows=200, length=4, size=8, symbols=words(200))
    query = np.random.default_rng(9).normal(size=7)
    found = coded.neighbors(query, 20, metric=metric)
    expected = brute_force(coded, query, metric)[:20]
    np.testing.assert_allclose([near.score for near in found], [score for _, score in expected], rtol=1e-3, atol=1e-5)
    assert {near.symbol for near in found[:15]} <= {coded.symbols[row] for row, _ in expected}


@pytest.mark.parametrize("metric", search.METRICS)
def test_a_symbol_is_left_out_of_its_own_answer(metric):
    coded = coded_table(rows=50, length=6, symbols=words(50))
    own = coded.symbols[7]
    found = coded.neighbors(own, 10, metric=metric)
    assert own not in [near.symbol for near in found]
    expected = brute_force(coded, coded[own], metric, leave_out=7)[:10]
    np.testing.assert_allclose([near.score for near in found], [score for _, score in expected], rtol=1e-4, atol=1e-5)


def test_a_table_smaller_than_k_gives_all_it_has():
    coded = coded_table(rows=5)
    assert len(coded.neighbors(np.ones(7), 100)) == 5
    assert len(coded.neighbors("0", 100)) == 4
    assert coded_table(rows=1).neighbors("0", 3) == []


@pytest.mark.parametrize("metric", search.METRICS)
def test_ties_go_to_the_first_rows(metric):
    codebook = np.array([[[1, 0], [0, 1], [2, 0]]], dtype=np.float32)
    coded = linear_table(None, [[1], [0], [0], [0], [1], [0]], codebook)
    assert [near.symbol for near in coded.neighbors([1.0, 0.0], 3, metric=metric)] == ["1", "2", "3"]
    assert [near.symbol for near in coded.neighbors([1.0, 0.0], 5, metric=metric)] == ["1", "2", "3", "5", "0"]


def test_by_hand():
    codebook = np.array([[[3, 4], [0, 1], [-3, -4]]], dtype=np.float32)
    coded = linear_table(["far", "up", "back"], [[0], [1], [2]], codebook)
    assert coded.neighbors([0.0, 2.0], 3, metric="dot") == [("far", 8), ("up", 2), ("back", -8)]
    assert coded.neighbors([0.0, 2.0], 2, metric="l2") == [("up", 1), ("far", pytest.approx(13**0.5))]
    assert coded.neighbors("far", 2) == [("up", pytest.approx(0.8)), ("back", pytest.approx(-1))]


def test_a_zero_vector_is_near_to_nothing():
    coded = coded_table(rows=5)
    assert [near.score for near in coded.neighbors(np.zeros(7), 5)] == [0] * 5
    codebook = np.zeros((1, 2, 3), np.float32)
    codebook[0, 1] = 1
    with_zero = linear_table(["nil", "one"], [[0], [1]], codebook)
    assert with_zero.neighbors("nil", 1) == [("one", 0)]
    assert with_zero.neighbors("one", 1) == [("nil", 0)]


def test_short_distances_keep_their_digits():
    codebook = np.full((1, 3, 2), 1000, dtype=np.float32)
    codebook[0, 1] += 0.5
    codebook[0, 2] += 0.25
    coded = linear_table(None, [[0], [1], [2]], codebook)
    found = coded.neighbors([1000.0, 1000.0], 3, metric="l2")
    assert found == [("0", 0), ("2", pytest.approx(0.125**0.5)), ("1", pytest.approx(0.5**0.5))]


@pytest.mark.parametrize("kind", NAMES)
def test_dot_products_agree_with_decoding(kind):
    coded = coded_table(kind, rows=9000, length=4)  # more than one chunk
    query = np.random.default_rng(1).normal(size=7).astype(np.float32)
    np.testing.assert_allclose(
        search.dot_products(coded, query), coded.decode(np.arange(9000)) @ query, rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("kind", ["linear", "lstm"])
def test_no_decoded_copy_is_made(kind):
    dim = 256
    coded = coded_table(kind, rows=60_000, length=4, size=16, dim=dim)
    whole = 60_000 * dim * 4
    tracemalloc.start()
    try:
        for metric in search.METRICS:
            coded.neighbors("5", 10, metric=metric)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < whole / 2


@pytest.mark.parametrize("query", [np.ones(6), np.ones((1, 7)), [np.nan] * 7, [1e39] * 7, ["a"] * 7, 3, [[1], [2, 3]]])
def test_queries_that_do_not_fit_are_refused(query):
    with pytest.raises(OptionError, match=r"expected finite vectors of size 7|a query is a symbol or one vector"):
        coded_table().neighbors(query)


def test_refusals_name_the_argument():
    coded = coded_table(symbols=list("abcde"))
    with pytest.raises(OptionError, match="one of cosine, dot, l2, got 'manhattan'"):
        coded.neighbors("a", metric="manhattan")
    with pytest.raises(OptionError, match="k must be at least 1, got 0"):
        coded.neighbors("a", 0)
    with pytest.raises(UnknownSymbolError, match="did you mean 'a'"):
        coded.neighbors("A")
