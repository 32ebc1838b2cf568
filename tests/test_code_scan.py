"""Searches on codes: exact, whatever the order of rows and however many are equal."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import CODEWORD_KINDS, codec_with, coded_table, random_codes

from kdcode import CodedTable, code_scan
from kdcode.codec import CodewordRows, CodewordSpec, make_codec
from kdcode.errors import OptionError, StorageError
from kdcode.search import METRICS


def by_brute_force(coded: CodedTable, query: np.ndarray, k: int, metric: str) -> list[int]:
    """The k nearest rows by vectors as they are decoded, in float64; of equal ones the first."""
    vectors = coded.decode(np.arange(len(coded))).astype(np.float64)
    if metric == "l2":
        near = -np.linalg.norm(vectors - query, axis=1)
    else:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query) if metric == "cosine" else np.ones(len(coded))
        near = np.divide(vectors @ query, lengths, out=np.zeros(len(coded)), where=lengths > 0)
    return np.argsort(-near, kind="stable")[:k].tolist()


def found_rows(coded: CodedTable, queries, k: int, metric: str, threads: int = 1) -> list[list[int]]:
    """The rows that a search finds; it must have been done on the codes."""
    before = CodedTable.dot_products
    try:
        CodedTable.dot_products = None
        answers = coded.neighbors(queries, k, metric=metric, threads=threads)
    finally:
        CodedTable.dot_products = before
    return [[int(near.symbol) for near in answer] for answer in answers]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("kind", "dtype"), [pair for pair in CODEWORD_KINDS if "lstm" not in pair[0]])
def test_the_nearest_are_those_of_decoded_vectors(kind, dtype, metric):
    coded = coded_table(kind, dtype, rows=3000, length=6, size=256 if dtype == "int8" else 12, dim=20)
    queries = np.random.default_rng(1).normal(size=(4, 20)).astype(np.float32)
    expected = [by_brute_force(coded, query.astype(np.float64), 9, metric) for query in queries]
    assert found_rows(coded, queries, 9, metric) == expected


@given(
    size=st.sampled_from([2, 5, 16, 200, 256, 1000]),
    length=st.integers(1, 9),
    rows=st.integers(1, 1500),
    k=st.integers(1, 40),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 9),
)
def test_any_shape_of_code(size, length, rows, k, metric, seed):
    spec = CodewordSpec.named("linear", 5, size, length, codebook_dtype="int8")
    coded = CodedTable.from_codes(None, random_codes(spec, rows, seed), codec_with(spec, seed))
    query = np.random.default_rng(seed).normal(size=5).astype(np.float32)
    assert found_rows(coded, query[None], k, metric) == [by_brute_force(coded, query.astype(np.float64), k, metric)]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("order", ["rising", "falling", "equal", "two values"])
def test_rows_in_any_order_and_many_equal_ones(order, threads, monkeypatch):
    """Rows that come nearer and nearer fill the room for candidates again and again; so do equal ones."""
    monkeypatch.setattr(code_scan, "_ROOM", 1024)
    monkeypatch.setattr(code_scan, "_ROWS_FOR_THREADS", 1000)
    spec = CodewordSpec.named("linear", 1, 65_536, 1, codebook_dtype="float32")
    codec = make_codec(spec, {"codebook": np.linspace(1, 2, 65_536)[None, :, None]})
    codes = np.arange(20_000) * 3
    codes = {"rising": codes, "falling": codes[::-1], "equal": 0 * codes + 7, "two values": codes % 2}[order]
    coded = CodedTable.from_codes(None, codes[:, None], codec)
    expected = {
        "rising": [19_999, 19_998, 19_997],
        "falling": [0, 1, 2],
        "equal": [0, 1, 2],
        "two values": [1, 3, 5],
    }[order]
    assert found_rows(coded, np.ones((2, 1)), 3, "dot", threads) == [expected, expected]


def test_rows_that_differ_by_less_than_sums_are_off(monkeypatch):
    """More of them than there is room for: their vectors decide."""
    monkeypatch.setattr(code_scan, "_ROOM", 1024)
    spec = CodewordSpec.named("linear", 1, 6, 1, codebook_dtype="float32")
    codec = make_codec(spec, {"codebook": (1 + np.arange(6) * 2.0**-23)[None, :, None]})
    codes = np.arange(20_000) % 5
    codes[[777, 12_345]] = 5
    coded = CodedTable.from_codes(None, codes[:, None], codec)
    assert found_rows(coded, np.ones((1, 1)), 4, "dot") == [[777, 12_345, 4, 9]]


@pytest.mark.parametrize("metric", METRICS)
def test_threads_find_the_same(metric, monkeypatch):
    monkeypatch.setattr(code_scan, "_ROWS_FOR_THREADS", 500)
    coded = coded_table("linear", "int8", rows=5000, length=8, size=256, dim=16)
    queries = np.random.default_rng(0).normal(size=(3, 16))
    one = found_rows(coded, queries, 20, metric, 1)
    assert found_rows(coded, queries, 20, metric, 2) == one
    assert found_rows(coded, queries, 20, metric, 7) == one
    with pytest.raises(OptionError, match="threads must be at least 1, got 0"):
        coded.neighbors(queries, threads=0)
    with pytest.raises(OptionError, match=r"threads must be an int, got 1.5"):
        coded.neighbors(queries, threads=1.5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("k", [2999, 3000, 10**12])
def test_more_neighbours_than_rows(k, threads, monkeypatch):
    monkeypatch.setattr(code_scan, "_ROWS_FOR_THREADS", 500)
    coded = coded_table("linear", "int8", rows=3000, length=4, size=256, dim=8)
    found = coded.neighbors(np.ones(8), k, metric="dot", threads=threads)
    assert len(found) == min(k, 3000)
    assert [int(near.symbol) for near in found] == by_brute_force(coded, np.ones(8), k, "dot")
    assert len(coded.neighbors("5", k, threads=threads)) == 2999


def test_steps_find_the_same(monkeypatch):
    coded = coded_table("linear", "int8", rows=5000, length=8, size=256, dim=16)
    queries = np.random.default_rng(0).normal(size=(3, 16))
    at_once = found_rows(coded, queries, 20, "l2")
    monkeypatch.setattr(code_scan, "_FEWEST_ROWS", 700)
    monkeypatch.setattr(code_scan, "_ADDED_AT_ONCE", 1)
    assert found_rows(coded, queries, 20, "l2") == at_once


def test_ctrl_c_stops_all_threads(monkeypatch):
    """While this thread is interrupted in its first step, the other has taken one of its twenty."""
    monkeypatch.setattr(code_scan, "_ROWS_FOR_THREADS", 10_000)
    monkeypatch.setattr(code_scan, "_FEWEST_ROWS", 500)
    monkeypatch.setattr(code_scan, "_ADDED_AT_ONCE", 1)
    coded = coded_table("linear", "int8", rows=20_000, length=4, size=256, dim=8)
    begun, never, steps = threading.Event(), threading.Event(), []

    def scan(_, first, *_given):
        if first == 0:
            assert begun.wait(60)
            raise KeyboardInterrupt
        steps.append(first)
        begun.set()
        never.wait(0.5)  # the interrupted thread has time to say so
        return first + 500

    monkeypatch.setattr(CodewordRows, "scan", scan)
    with pytest.raises(KeyboardInterrupt):
        coded.neighbors(np.ones(8), metric="dot", threads=2)
    assert steps == [10_000]


@pytest.mark.parametrize(("kind", "dtype"), [pair for pair in CODEWORD_KINDS if "lstm" not in pair[0]])
def test_dot_products_are_no_further_off_than_the_bound(kind, dtype):
    coded = coded_table(kind, dtype, rows=400, length=9, size=30, dim=25)
    queries = np.random.default_rng(5).normal(size=(3, 25)) * np.array([[1e-4], [1.0], [1e4]])
    scores = code_scan.RowScores(coded, coded._decoder).scanner(queries, "dot")
    tables = coded.codec.score_tables(queries.T).reshape(-1, 3).T.astype(np.float32)
    levels = coded.codec.stored.get("scale_levels", np.ones(256, dtype=np.float32))
    scales = levels[coded.codes[:, -1] if coded.spec.scale_bits else np.zeros(400, dtype=int)]
    codes = coded.codes[:, : coded.code_length] + coded.codebook_size * np.arange(coded.code_length)
    exact = coded.decode(np.arange(400)).astype(np.float64) @ queries.T
    for query in range(3):
        sums = tables[query][codes].sum(axis=1, dtype=np.float32) * scales
        worst = np.abs(sums - exact[:, query]).max()
        assert worst <= scores.slack[query]
        assert scores.slack[query] < 1e-3 * np.abs(exact[:, query]).max()  # or every row would be a candidate


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("metric", METRICS)
def test_numbers_far_from_one_are_compared_in_float64(scale, metric):
    spec = CodewordSpec.named("linear", 4, 16, 2, codebook_dtype="float32")
    codebook = np.random.default_rng(0).normal(size=(2, 16, 4)) * scale
    coded = CodedTable.from_codes(None, random_codes(spec, 200), make_codec(spec, {"codebook": codebook}))
    query = (np.random.default_rng(1).normal(size=4) * scale).astype(np.float32)
    found = [int(near.symbol) for near in coded.neighbors(query, 5, metric=metric)]
    assert found == by_brute_force(coded, query.astype(np.float64), 5, metric)


def test_a_query_of_zeros_finds_the_first_rows():
    coded = coded_table(rows=50)
    assert [near.symbol for near in coded.neighbors(np.zeros(7), 3)] == ["0", "1", "2"]


def test_codes_that_no_codebook_has_are_refused():
    spec = CodewordSpec.named("linear", 4, 5, 2, codebook_dtype="float32")
    packed = np.zeros((2000, spec.row_bytes), dtype=np.uint8)
    packed[1500] = 0b110
    coded = CodedTable.from_codes(None, np.zeros((2000, 2), dtype=int), codec_with(spec))
    broken = CodedTable(coded.symbols, packed, coded.codec)
    with pytest.raises(StorageError, match="found code value 6, values must be below K=5"):
        broken.neighbors(np.ones(4), metric="dot")


def test_memory_does_not_grow_with_the_number_of_vectors():
    """What a search takes beside the codes is far less than the vectors, and hardly more for eight times as many."""
    taken = []
    for rows in (50_000, 400_000):
        spec = CodewordSpec.named("product", 64, 256, 8, codebook_dtype="int8")
        coded = CodedTable.from_codes(None, random_codes(spec, rows), codec_with(spec))
        coded.neighbors(np.ones(64), metric="dot", threads=1)
        tracemalloc.start()
        coded.neighbors(np.ones((4, 64)), metric="dot", threads=1)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert taken[1] < 4 * 64 * 50_000 / 4
    assert taken[1] < 1.5 * taken[0]


def test_a_pass_over_all_vectors_finds_the_same(monkeypatch):
    coded = coded_table("rotated-grouped", "int8", rows=2000, length=6, size=50, dim=24)
    queries = np.random.default_rng(3).normal(size=(5, 24))
    quick = {metric: coded.neighbors(queries, 10, metric=metric) for metric in METRICS}
    monkeypatch.setattr(CodedTable, "candidates", lambda *_: None)
    for metric in METRICS:
        assert coded.neighbors(queries, 10, metric=metric) == quick[metric]
