"""Analogies and the like, on tables of every kind: what the decoded vectors say, with gensim as the judge."""

import tracemalloc

import numpy as np
import pytest
import torch
from sample_tables import KINDS, coded_table, words

import kdcode
from kdcode import VectorTable
from kdcode.errors import OptionError, UnknownSymbolError

ROWS = 300
SYMBOLS = words(ROWS)
CODED = coded_table(rows=ROWS, symbols=SYMBOLS)
MATRIX = CODED.to_table().matrix
A, B, C = SYMBOLS[3], SYMBOLS[40], SYMBOLS[200]


@pytest.fixture(params=["coded", "vectors"])
def table(request):
    return CODED if request.param == "coded" else VectorTable(SYMBOLS, MATRIX)


@pytest.fixture(scope="module")
def judge():
    models = pytest.importorskip("gensim.models")
    vectors = models.KeyedVectors(MATRIX.shape[1])
    vectors.add_vectors(SYMBOLS, MATRIX)
    return vectors


def same(found, expected):
    """Equal symbols and cosines; symbols whose cosines are equal to rounding may stand in any order."""
    scores = [score for _, score in found]
    assert scores == pytest.approx([score for _, score in expected], abs=2e-6)
    assert scores == sorted(scores, reverse=True)
    clear = [abs(score - expected[-1][1]) > 1e-5 for _, score in expected]
    kept = {symbol for (symbol, _), is_clear in zip(expected, clear, strict=True) if is_clear}
    assert kept <= {symbol for symbol, _ in found}


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_analogies_on_every_kind_of_table_are_those_of_the_decoded_vectors(kind, dtype):
    coded = coded_table(kind, dtype, rows=80, symbols=words(80))
    matrix = coded.to_table().matrix.astype(np.float64)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    names = list(coded.symbols)
    direction = unit[5] + unit[9] - unit[30]
    cosines = unit @ (direction / np.linalg.norm(direction))
    order = [row for row in np.argsort(-cosines, kind="stable") if row not in (5, 9, 30)]
    found = coded.most_similar([names[5], names[9]], [names[30]], topn=12)
    same(found, [(names[row], cosines[row]) for row in order[:12]])
    assert not {names[5], names[9], names[30]} & {symbol for symbol, _ in found}


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        (A, None),
        ([A], []),
        (A, B),
        ([A, B], [C]),
        ([A, A], []),
        ([(A, 0.5), (B, 2.0)], [(C, -0.25)]),
        (3, None),
        ([3, (40, 0.5)], [200]),
        (MATRIX[7], None),
        (MATRIX[7:9], None),
        ([MATRIX[7] * 3, A], [MATRIX[9]]),
        (None, B),
    ],
    ids=str,
)
def test_most_similar_is_gensims(table, judge, positive, negative):
    for topn in (1, 10):
        same(table.most_similar(positive, negative, topn), judge.most_similar(positive, negative, topn=topn))
    limited = table.most_similar(positive, negative, 5, restrict_vocab=50)
    same(limited, judge.most_similar(positive, negative, topn=5, restrict_vocab=50)[:5])
    assert {symbol for symbol, _ in limited} <= set(SYMBOLS[:50])


def test_tensors_and_arrays_of_symbols_are_taken(table):
    assert table.most_similar(torch.from_numpy(MATRIX[7])) == table.most_similar(MATRIX[7])
    assert table.most_similar(np.array([A, B])) == table.most_similar([A, B])
    assert table.most_similar(np.array([3, 40])) == table.most_similar([A, B])


def test_pairs_unpack_and_a_given_vector_leaves_nothing_out(table):
    ((symbol, score), *_) = table.most_similar(MATRIX[3], topn=1)
    assert score == pytest.approx(1)
    assert np.array_equal(table[symbol], MATRIX[3])


def test_how_many(table):
    assert table.most_similar(A, topn=0) == []
    assert len(table.most_similar(A, topn=np.int64(4))) == 4
    assert len(table.most_similar(A, topn=10**9)) == ROWS - 1
    assert len(table.most_similar(A, topn=10, restrict_vocab=6)) == 5
    assert len(table.most_similar(A, topn=10, restrict_vocab=10**9)) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs a symbol or a vector to compare with"),
        ({"positive": []}, "needs a symbol or a vector to compare with"),
        ({"positive": A, "topn": None}, "topn must be an integer of at least 0, got None"),
        ({"positive": A, "topn": -1}, "topn must be an integer"),
        ({"positive": A, "topn": True}, "topn must be an integer"),
        ({"positive": A, "restrict_vocab": 0}, "restrict_vocab must be an integer of at least 1"),
        ({"positive": [0.5, 0.25]}, "a query is a symbol or a vector of 7 numbers"),
        ({"positive": 0.5}, "expected symbols, row numbers or vectors"),
        ({"positive": np.ones(6, dtype=np.float32)}, "vector of 7 numbers"),
        ({"positive": [np.full(7, np.nan)]}, "not a finite float32"),
        ({"positive": [True]}, "vector of 7 numbers"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_refused(table, arguments, said):
    with pytest.raises(OptionError, match=said):
        table.most_similar(**arguments)


def test_unknown_symbols_are_key_errors(table):
    for ask in (
        lambda: table.most_similar("nowhere"),
        lambda: table.most_similar([A], ["nowhere"]),
        lambda: table.similarity(A, "nowhere"),
        lambda: table.rank(A, "nowhere"),
        lambda: table.doesnt_match([A, "nowhere"]),
        lambda: table.n_similarity([A], ["nowhere"]),
    ):
        with pytest.raises(UnknownSymbolError, match="nowhere"):
            ask()
        with pytest.raises(KeyError):
            ask()
    with pytest.raises(IndexError):
        table.most_similar(ROWS)


def test_cosines_are_gensims(table, judge):
    assert table.similarity(A, B) == pytest.approx(judge.similarity(A, B), abs=1e-6)
    assert table.similarity(A, A) == 1
    assert table.similarity(A, MATRIX[40]) == pytest.approx(table.similarity(3, 40))
    assert table.n_similarity([A, B], [C]) == pytest.approx(judge.n_similarity([A, B], [C]), abs=1e-6)
    np.testing.assert_allclose(table.similarities(A), 1 - judge.distances(A), atol=2e-6)
    np.testing.assert_allclose(table.similarities(MATRIX[5]), 1 - judge.distances(MATRIX[5]), atol=2e-6)
    for names in ([A, B, C], SYMBOLS[10:16], [A, A, B]):
        assert table.doesnt_match(names) == judge.doesnt_match(names)
    for other in SYMBOLS[::37]:
        assert table.rank(A, other) == judge.rank(A, other)
    assert table.rank(A, A) == 1
    for ask in (lambda: table.doesnt_match([]), lambda: table.doesnt_match(A), lambda: table.n_similarity([], [A])):
        with pytest.raises(OptionError, match="needs"):
            ask()
    with pytest.raises(OptionError, match="rank needs a symbol"):
        table.rank(A, MATRIX[3])


def test_vectors_of_length_zero_are_similar_to_nothing():
    table = VectorTable(["zero", "one", "two"], np.array([[0, 0], [1, 0], [1, 1]], dtype=np.float32))
    assert table.similarity("zero", "one") == 0
    assert table.similarities("zero").tolist() == [0, 0, 0]
    assert table.most_similar("one") == [("two", pytest.approx(0.5**0.5)), ("zero", 0)]
    assert {score for _, score in table.most_similar("one", "one")} == {0}
    assert table.doesnt_match(["zero", "one", "two"]) == "zero"


@pytest.mark.parametrize("scale", [1e-38, 1e38])
def test_vectors_of_any_finite_length(scale):
    matrix = (np.array([[1, 0], [1, 1], [-1, 2]]) * scale).astype(np.float32)
    table = VectorTable(["a", "b", "c"], matrix)
    assert table.similarity("a", "b") == pytest.approx(0.5**0.5, rel=1e-5)
    assert [symbol for symbol, _ in table.most_similar("a")] == ["b", "c"]


def test_a_search_holds_no_decoded_table():
    coded = coded_table("product", rows=60_000, dim=128, length=4)
    decoded = 60_000 * 128 * 4
    coded.norms  # noqa: B018 - kept, N numbers
    tracemalloc.start()
    try:
        coded.most_similar([3, 4], [5], restrict_vocab=50_000)
        coded.similarities(3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < decoded / 4


def test_the_table_that_comes_with_kdcode_knows_kings_and_queens():
    table = kdcode.data.glove_50d()
    assert "queen" in [symbol for symbol, _ in table.most_similar(["king", "woman"], ["man"], topn=3)]
    assert table.doesnt_match(["breakfast", "lunch", "dinner", "railway"]) == "railway"
