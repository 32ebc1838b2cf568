"""Rows of transform codes compared with queries: what decoded vectors say, within a bound that holds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import TRANSFORM_NAMES, coded_table, transform_codec, words

import kdcode
from kdcode import _core, code_scan
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, StorageError
from kdcode.search import METRICS
from kdcode.symbols import RowNumbers

NONE = np.empty(0, dtype=np.float32)
ISAS = ("plain", "avx2", "avx512", "neon")


def exact(coded, queries):
    """(q, N) dot products of decoded rows, in float64."""
    return np.asarray(queries, dtype=np.float64) @ coded.decode(np.arange(len(coded))).astype(np.float64).T


def bounds(coded, queries, planes=1, first=0, stop=None):
    """(q, N) lowest and highest scores of all rows, or of some."""
    rows, count = coded._decoder._rows, len(queries)
    stop = len(coded) if stop is None else stop
    room = len(coded) + 64
    found, counts = np.full((count, room), -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    lows, highs = np.empty((2, count, room), dtype=np.float32)
    prepared = _core.LevelQueries(coded.codec.core, np.ascontiguousarray(queries, dtype=np.float64), planes)
    floors = np.full(count, -np.inf, dtype=np.float32)
    done = prepared.scan(rows.core, NONE, NONE, 0.0, floors, first, stop, found, lows, highs, counts)
    assert done == (stop, 0, 0)
    assert counts.tolist() == [stop - first] * count
    np.testing.assert_array_equal(
        found[:, : stop - first], np.broadcast_to(np.arange(first, stop), (count, stop - first))
    )
    return lows[:, : stop - first].astype(np.float64), highs[:, : stop - first].astype(np.float64)


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
@pytest.mark.parametrize("planes", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 7, 16, 33])
def test_exact_products_lie_between_the_bounds(kind, planes, dim):
    coded = coded_table(kind, rows=150, dim=dim)
    queries = np.random.default_rng(dim).normal(size=(5, dim)) * np.array([1e-3, 1, 1, 10, 1e3])[:, None]
    lows, highs = bounds(coded, queries, planes)
    expected = exact(coded, queries)
    assert (lows <= expected).all()
    assert (expected <= highs).all()
    sizes = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(coded.decode(np.arange(150)), axis=1).max()
    assert ((highs - lows) < {1: 0.3, 2: 0.01, 3: 0.01}[planes] * sizes + 1e-3 * sizes).all()


@given(
    kind=st.sampled_from(TRANSFORM_NAMES),
    dim=st.integers(1, 40),
    rows=st.integers(1, 120),
    queries=st.integers(1, 20),
    power=st.integers(-6, 6),
    seed=st.integers(0, 99),
)
def test_scores_are_those_of_decoded_rows(kind, dim, rows, queries, power, seed):
    coded = coded_table(kind, rows=rows, dim=dim, seed=seed)
    asked = np.random.default_rng(seed).normal(size=(queries, dim)) * 10.0**power
    found = coded._decoder.scores(asked)
    assert found.dtype == np.float32
    sizes = np.linalg.norm(asked, axis=1)[:, None] * (1 + np.linalg.norm(coded.decode(np.arange(rows)), axis=1))
    assert (np.abs(found - exact(coded, asked)) <= 3e-6 * sizes).all()


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_any_part_of_the_rows(kind):
    coded = coded_table(kind, rows=200, dim=9)
    queries = np.random.default_rng(0).normal(size=(3, 9))
    lows, highs = bounds(coded, queries)
    for first, stop in ((0, 1), (1, 2), (63, 65), (5, 200), (199, 200), (64, 128), (7, 7)):
        some = bounds(coded, queries, first=first, stop=stop)
        np.testing.assert_array_equal(some, (lows[:, first:stop], highs[:, first:stop]))


def large_table():
    """Rows whose coordinates are, some of them, hundreds of steps away."""
    codec = transform_codec(12)
    codec = replace(codec, spec=replace(codec.spec, codebook_size=4000, lengths=tuple(60 + i for i in range(6))))
    random = np.random.default_rng(3)
    vectors = random.normal(size=(90, 12)) * random.choice([1, 1, 30], size=(90, 12))
    return CodedTable(RowNumbers(90), codec.pack(codec.encode(vectors)), codec)


def test_levels_beyond_int8_count():
    coded = large_table()
    assert (coded.codes[:, :12] > 2 * 127).any(axis=1).sum() > 5
    queries = np.random.default_rng(1).normal(size=(4, 12))
    lows, highs = bounds(coded, queries)
    expected = exact(coded, queries)
    assert ((lows <= expected) & (expected <= highs)).all()
    np.testing.assert_allclose(coded._decoder.scores(queries), expected, rtol=1e-5, atol=1e-4)


def nearest(coded, query, k, metric):
    """The k nearest rows by decoded vectors in float64; of equal ones the first."""
    vectors = coded.decode(np.arange(len(coded))).astype(np.float64)
    query = np.asarray(query, dtype=np.float32).astype(np.float64)
    if metric == "l2":
        near = -np.linalg.norm(vectors - query, axis=1)
    else:
        near = (vectors * query).sum(axis=1)
        if metric == "cosine":
            lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
            near = np.divide(near, lengths, out=np.zeros(len(coded)), where=lengths > 0)
    return np.argsort(-near, kind="stable")[:k].tolist()


@given(
    kind=st.sampled_from(TRANSFORM_NAMES),
    rows=st.integers(1, 400),
    k=st.integers(1, 30),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 50),
)
def test_a_search_finds_what_decoded_rows_say(kind, rows, k, metric, seed):
    coded = coded_table(kind, rows=rows, dim=5, seed=seed)
    queries = np.random.default_rng(seed).normal(size=(3, 5))
    found = coded.neighbors(queries, k, metric=metric)
    assert [[int(near.symbol) for near in answer] for answer in found] == [
        nearest(coded, query, k, metric) for query in queries
    ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_threads_and_rows_in_a_file_find_the_same(kind, metric, tmp_path, monkeypatch):
    """No vector is decoded in a pass, and bytes of the file are checked on the way."""
    coded = coded_table(kind, rows=30_000, dim=16, symbols=words(30_000))
    kdcode.save(coded, tmp_path / "t.kdc")
    queries = np.random.default_rng(0).normal(size=(4, 16))
    expected = coded.neighbors(queries, 12, metric=metric, threads=1)
    monkeypatch.setattr(code_scan, "_ROWS_FOR_THREADS", 1000)
    monkeypatch.setattr(CodedTable, "dot_products", None)
    assert kdcode.load(tmp_path / "t.kdc").neighbors(queries, 12, metric=metric, threads=3) == expected
    own = words(30_000)[77]
    assert own not in [near.symbol for near in coded.neighbors(own, 5, metric=metric)]


def test_scores_of_a_file_on_threads_are_the_same(tmp_path, monkeypatch):
    coded = coded_table("transform", rows=30_000, dim=16)
    kdcode.save(coded, tmp_path / "t.kdc")
    queries = np.random.default_rng(0).normal(size=(70, 16)).astype(np.float32)
    found = kdcode.load(tmp_path / "t.kdc")._decoder.scores(queries, threads=2)
    np.testing.assert_array_equal(found, coded._decoder.scores(queries))
    np.testing.assert_array_equal(found[69:], coded._decoder.scores(queries[69:]))


@pytest.mark.parametrize("seed", range(6))
def test_a_block_that_stands_for_no_levels_is_refused(seed):
    coded = coded_table("transform", rows=200, dim=16)
    tensors = dict(coded.packed.tensors())
    codes = np.array(tensors["codes"])
    codes[seed * 300 :] = 255 if seed % 2 else np.random.default_rng(seed).integers(256, size=len(codes) - seed * 300)
    tensors["codes"] = codes.astype(np.uint8)
    rows = coded.codec.rows_of_tensors(tensors, 200)
    broken = CodedTable(coded.symbols, rows, coded.codec)
    for ask in (lambda: broken.neighbors(np.ones(16), metric="dot"), lambda: broken._decoder.scores(np.ones((1, 16)))):
        with pytest.raises(StorageError, match="codes: "):
            ask()


DIGEST = """
import sys, hashlib
sys.path[:0] = [{folder!r}, {own!r}]
from test_level_scan import digest
print(digest())
"""


def digest():
    """Of bounds and scores of several tables."""
    total = hashlib.sha256()
    for kind in TRANSFORM_NAMES:
        coded = coded_table(kind, rows=300, dim=23)
        queries = np.random.default_rng(5).normal(size=(9, 23))
        for array in (*bounds(coded, queries), coded._decoder.scores(queries)):
            total.update(array.tobytes())
    numbers = np.random.default_rng(1).integers(-127, 128, size=(77, 23)).astype(np.int8)
    scores = np.empty((9, 77), dtype=np.float32)
    _core.score_int8(numbers, np.ones(77, dtype=np.float32), queries, 0, 77, scores)
    total.update(scores.tobytes())
    return total.hexdigest()


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_gives_the_same_bits(isa):
    own = Path(__file__).parent
    script = DIGEST.format(folder=str(own.parents[1]), own=str(own))
    environment = {**os.environ, "KDCODE_ISA": isa}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if "this build and processor have" in found.stderr:
        pytest.skip(f"no {isa} here")
    assert found.stdout.strip() == digest(), found.stderr


def test_the_core_refuses_what_does_not_fit():
    coded = coded_table("transform", rows=20, dim=7)
    core, rows = coded.codec.core, coded._decoder._rows.core
    two = np.zeros((2, 7))
    queries = _core.LevelQueries(core, two, 1)
    floors, counts = np.zeros(2, np.float32), np.zeros(2, np.int64)
    kept = np.zeros((2, 64), np.int64), *np.zeros((2, 2, 64), np.float32)
    with pytest.raises(OptionError, match="the queries must have shape"):
        _core.LevelQueries(core, np.zeros((2, 6)), 1)
    with pytest.raises(OptionError, match="1 to 1,024 queries"):
        _core.LevelQueries(core, np.zeros((0, 7)), 1)
    with pytest.raises(OptionError, match="1 to 3 planes"):
        _core.LevelQueries(core, two, 4)
    with pytest.raises(OptionError, match="from one row of the table to another"):
        queries.scan(rows, NONE, NONE, 0.0, floors, 0, 21, *kept, counts)
    with pytest.raises(OptionError, match="the factors must have shape"):
        queries.scan(rows, floors, NONE, 0.0, floors, 0, 20, *kept, counts)
    with pytest.raises(OptionError, match="the floors must have shape"):
        queries.scan(rows, NONE, NONE, 0.0, floors[:1], 0, 20, *kept, counts)
    with pytest.raises(OptionError, match="the scores must have shape"):
        queries.score(rows, 0, 20, np.zeros((2, 19), np.float32))
    with pytest.raises(OptionError, match="same classes of blocks"):
        queries.score(coded_table("transform-plain", rows=20)._decoder._rows.core, 0, 20, np.zeros((2, 20), np.float32))
    for count in (-1, 1, 65, 2**62):
        counts[:] = count
        assert queries.scan(rows, NONE, NONE, 0.0, floors, 0, 20, *kept, counts) == (0, 0, 0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_a_query_that_is_not_finite_has_no_scores(wrong):
    coded = coded_table("transform-centroids", rows=50)
    queries = np.random.default_rng(1).normal(size=(3, 7))
    clean = coded._decoder.scores(queries)
    queries[1, 4] = wrong
    found = coded._decoder.scores(queries)
    assert not np.isfinite(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])
