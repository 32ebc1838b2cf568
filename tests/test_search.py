import tracemalloc

import numpy as np
import pytest
import torch
from sample_tables import KINDS, NAMES, TRANSFORM_NAMES, coded_table, words

from kdcode import CodedTable, VectorTable, search
from kdcode.codec import CodewordRows, CodewordSpec, make_codec
from kdcode.errors import OptionError, UnknownSymbolError, UnknownSymbolsError


def linear_table(symbols, codes, codebook):
    """A table of one position, whose rows are codewords."""
    _, size, dim = np.shape(codebook)
    spec = CodewordSpec.named("linear", dim, size, 1, codebook_dtype="float32")
    return CodedTable.from_codes(symbols, np.array(codes), make_codec(spec, {"codebook": np.asarray(codebook)}))


def brute_force(coded, query, metric, leave_out=None):
    """(row, score) of every row, nearest first, from the decoded table in float64."""
    vectors = np.asarray(coded, dtype=np.float64)
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
    codebook = np.array([[[1e6, 0], [1e6, 2e-4], [1e6, 1e-4]]], dtype=np.float32)
    coded = linear_table(None, [[0], [1], [2]], codebook)
    found = coded.neighbors([1e6, 0.0], 3, metric="l2")
    assert found == [("0", 0), ("2", pytest.approx(1e-4)), ("1", pytest.approx(2e-4))]


@pytest.mark.parametrize("kind", [*NAMES, "decoded"])
def test_dot_products_agree_with_decoding(kind):
    coded = coded_table("linear" if kind == "decoded" else kind, rows=9000, length=4)  # more than one chunk
    table = coded.to_table() if kind == "decoded" else coded
    queries = np.random.default_rng(1).normal(size=(3, 7))
    pieces = list(table.dot_products(queries))
    assert [start for start, _ in pieces] == [0, 8192]
    found = np.concatenate([dots for _, dots in pieces])
    np.testing.assert_allclose(found, coded.decode(np.arange(9000)) @ queries.T, rtol=1e-3, atol=1e-4)


def assert_alike(found, expected, kind):
    """The same neighbours. Products of matrices are rounded otherwise for many rows than for one on some processors."""
    if kind in ("linear", "decoded"):
        assert found == expected
    else:  # many rows have one code, so that rounding decides which of them is first
        scores = [near.score for near in expected]
        np.testing.assert_allclose([near.score for near in found], scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", search.METRICS)
@pytest.mark.parametrize("kind", ["linear", "scaled-rotated", "lstm", "decoded"])
def test_several_queries_find_what_each_finds_alone(kind, metric):
    coded = coded_table("linear" if kind == "decoded" else kind, rows=20_000, size=4, symbols=words(20_000))
    table = coded.to_table() if kind == "decoded" else coded
    some = words(20_000)[::67]  # more queries than are handled at once
    found = table.neighbors(some, 7, metric=metric)
    assert len(found) == len(some) > 256
    for number in (0, 1, 255, 256, len(some) - 1):
        assert_alike(found[number], table.neighbors(some[number], 7, metric=metric), kind)
    vectors = np.random.default_rng(0).normal(size=(3, 7))
    for together, one in zip(table.neighbors(vectors, 5, metric=metric), vectors, strict=True):
        assert_alike(together, table.neighbors(one, 5, metric=metric), kind)
    assert table.neighbors(vectors.tolist(), 5, metric=metric) == table.neighbors(vectors, 5, metric=metric)


@pytest.mark.parametrize("metric", search.METRICS)
def test_a_table_as_it_came_agrees_with_brute_force(metric):
    table = VectorTable(words(200), np.random.default_rng(2).normal(size=(200, 7)).astype(np.float16))
    own = table.symbols[7]
    found = table.neighbors(own, 20, metric=metric)
    expected = brute_force(table, table[own], metric, leave_out=7)[:20]
    assert [near.symbol for near in found] == [table.symbols[row] for row, _ in expected]
    np.testing.assert_allclose([near.score for near in found], [score for _, score in expected], rtol=1e-6)


def test_several_are_found_in_one_pass(monkeypatch):
    coded = coded_table(rows=1000, symbols=words(1000))
    coded.norms  # noqa: B018 - a pass of its own, made once
    passes = []
    scan = CodewordRows.scan
    monkeypatch.setattr(CodewordRows, "scan", lambda *given: passes.append(1) or scan(*given))
    assert len(coded.neighbors(words(50), 3)) == 50
    assert passes == [1]


def test_missing_words_are_listed_or_skipped():
    coded = coded_table(symbols=list("abcde"))
    with pytest.raises(UnknownSymbolsError, match=r"no symbols 'A' \(did you mean 'a'\?\), 'zebra'$") as raised:
        coded.neighbors(["a", "A", "zebra", "b", "A"])
    assert raised.value.symbols == ["A", "zebra"]
    assert isinstance(raised.value, KeyError)
    with pytest.raises(UnknownSymbolError, match=r"no symbol 'A'; did you mean 'a'\?"):
        coded.neighbors(["a", "A"])
    found = coded.neighbors(["a", "A", "b", "a"], missing="skip")
    assert found == [coded.neighbors("a"), [], coded.neighbors("b"), coded.neighbors("a")]
    assert coded.neighbors("A", missing="skip") == []
    assert coded.neighbors([]) == []
    assert coded.neighbors(np.empty((0, 7))) == []
    with pytest.raises(OptionError, match="missing must be one of raise, skip, got 'drop'"):
        coded.neighbors(["a"], missing="drop")


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-20, 1.0, 1e19, 1e30, 3e38])
def test_vectors_of_any_size_have_the_right_neighbours(size, coded):
    rows = np.array([[1, 0], [1, 1], [-1, 0.5], [0, 1]]) * size
    table = linear_table(list("abcd"), [[0], [1], [2], [3]], rows[None]) if coded else VectorTable(list("abcd"), rows)
    cosines = table.neighbors("a", 3)
    assert [near.symbol for near in cosines] == ["b", "d", "c"]
    if size > 1e-40:  # numbers below 1e-38 have few digits
        assert [near.score for near in cosines] == pytest.approx([0.5**0.5, 0, -(0.8**0.5)], rel=1e-6)
    l2 = table.neighbors("a", 3, metric="l2")
    assert [near.symbol for near in l2] == ["b", "d", "c"]
    assert [near.score for near in l2] == pytest.approx(np.array([1, 2**0.5, 4.25**0.5]) * size, rel=0.2)
    dots = table.neighbors("a", 3, metric="dot")
    assert [near.symbol for near in dots] == ["b", "d", "c"]
    assert dots[0].score == pytest.approx(size * size, rel=0.2)


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


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.ones(6), r"a vector of 7 numbers, or several of them, got float64 of shape \(6,\)"),
        (np.ones((1, 1, 7)), r"got float64 of shape \(1, 1, 7\)"),
        (np.ones((7, 2)), r"got float64 of shape \(7, 2\)"),
        ([np.nan] * 7, "not a finite float32"),
        ([1e39] * 7, "not a finite float32"),
        (["a", 1.0], "expected symbols alone or numbers alone, got 1.0 among symbols"),
        (3, r"got int 3; for a row number give its symbol, table.symbols\[row\]"),
        ([[1], [2, 3]], r"got list \[\[1\], \[2, 3\]\]"),
        (None, "got NoneType None"),
        (np.ones(7, dtype=complex), "got complex128"),
    ],
)
def test_queries_that_do_not_fit_are_refused(query, message):
    for table in (coded_table(), coded_table().to_table()):
        with pytest.raises(OptionError, match=message):
            table.neighbors(query)


def test_refusals_name_the_argument():
    coded = coded_table(symbols=list("abcde"))
    with pytest.raises(OptionError, match="one of cosine, dot, l2, got 'manhattan'"):
        coded.neighbors("a", metric="manhattan")
    with pytest.raises(OptionError, match="k must be at least 1, got 0"):
        coded.neighbors("a", 0)
    with pytest.raises(OptionError, match=r"k must be an int, got 2\.5"):
        coded.neighbors("a", 2.5)
    assert len(coded.neighbors("a", np.int64(2))) == 2
    with pytest.raises(UnknownSymbolError, match="did you mean 'a'"):
        coded.neighbors("A")


LENGTHS = (1e-44, 1e-40, 1e-30, 1e-19, 1.0, 1e19, 1e30, 3e38)


def of_length(coded, length):
    """The table with vectors whose largest number is `length`, by its levels of row scales where it has them."""
    factor = length / np.abs(np.asarray(coded)).max()
    levels = coded.codec.stored.get("scale_levels")
    scaled = coded.codec.scaled(factor) if levels is None else coded.codec.with_levels(levels * np.float32(factor))
    return CodedTable(coded.symbols, coded.packed, scaled)


@pytest.mark.parametrize("metric", search.METRICS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", [*NAMES, "decoded"])
def test_vectors_of_any_finite_length_have_neighbors(kind, length, metric):
    if kind in TRANSFORM_NAMES:
        length = max(length, 1e-42)  # a step is smaller than a vector, and must be more than zero
    coded = of_length(coded_table("linear" if kind == "decoded" else kind, rows=100, size=8), length)
    table = coded.to_table() if kind == "decoded" else coded
    vectors = np.asarray(coded, dtype=np.float64)
    for query in (coded.decode(3), coded.decode(4) / 2, np.full(7, length / 3, dtype=np.float32)):
        found = [near.score for near in table.neighbors(query, 5, metric=metric)]
        wide = query.astype(np.float64)
        scores = {
            "dot": vectors @ wide,
            "l2": -np.linalg.norm(vectors - wide, axis=1),
            "cosine": vectors @ wide / np.maximum(np.linalg.norm(vectors, axis=1) * np.linalg.norm(wide), 1e-300),
        }[metric]
        expected = np.sort(scores)[::-1][:5] * (-1 if metric == "l2" else 1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(scores).max())


def test_tensors_of_any_kind_are_queries():
    coded = coded_table(rows=30, symbols=words(30))
    query = torch.linspace(-1, 1, 7)
    expected = coded.neighbors(query.numpy(), 3)
    assert coded.neighbors(query, 3) == coded.neighbors(query.double(), 3) == expected
    assert coded.neighbors(query.requires_grad_(), 3) == expected
    near = coded.neighbors(query.to(torch.bfloat16), 3)
    assert near == coded.neighbors(query.to(torch.bfloat16).float().detach().numpy(), 3)
    assert coded.neighbors(query.to(torch.bfloat16)[None], 3) == [near]
    np.testing.assert_array_equal(coded[torch.tensor([3, 4])], coded.decode([3, 4]))
    added = coded.with_rows({"<unk>": torch.ones(7, dtype=torch.bfloat16)})
    np.testing.assert_array_equal(added.codes, coded.with_rows({"<unk>": np.ones(7)}).codes)
    with pytest.raises(OptionError, match=r"got torch\.bfloat16 of shape"):
        coded.neighbors(torch.ones(8, dtype=torch.bfloat16))
    with pytest.raises(OptionError, match="not a finite float32"):
        coded.neighbors(torch.full((7,), torch.inf, dtype=torch.bfloat16))


def test_many_codewords_leave_fewer_queries_to_a_pass():
    assert coded_table(length=4, size=256).queries_at_once == search.QUERIES_AT_ONCE
    wide = coded_table(length=7, size=65_536)
    assert wide.queries_at_once == (1 << 24) // (7 * 65_536) == 36
    queries = np.random.default_rng(0).normal(size=(40, 7))
    assert wide.neighbors(queries, 2) == [wide.neighbors(query, 2) for query in queries]
