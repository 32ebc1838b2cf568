"""Codewords are looked at where rows lie in clusters, and where they are short."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.planning.clusters import is_clustered


def clustered(rows=4000, dim=32, noise=0.15):
    random = np.random.default_rng(0)
    centres = random.normal(size=(200, dim))
    return (centres[random.integers(0, 200, rows)] + noise * random.normal(size=(rows, dim))).astype(np.float32)


def normal(rows=4000, dim=32):
    return (np.random.default_rng(0).normal(size=(rows, dim)) * np.geomspace(1, 0.1, dim)).astype(np.float32)


def test_clusters_are_seen_and_nothing_else_is_taken_for_them():
    random = np.random.default_rng(0)
    assert is_clustered(kdcode.VectorTable(None, clustered()))
    assert not is_clustered(kdcode.VectorTable(None, clustered(noise=3.0)))
    assert not is_clustered(kdcode.VectorTable(None, normal()))
    assert not is_clustered(
        kdcode.VectorTable(None, normal() * np.exp(random.normal(size=(4000, 1))).astype(np.float32))
    )
    assert not is_clustered(glove_50d())


@pytest.mark.parametrize("rows", [1, 2, 40, 100])
def test_a_few_rows_and_rows_that_are_alike_are_no_clusters(rows):
    assert not is_clustered(kdcode.VectorTable(None, normal(rows)))
    assert not is_clustered(kdcode.VectorTable(None, np.ones((rows, 4), dtype=np.float32)))


def test_a_plan_for_clusters_looks_at_codewords():
    matrix = clustered()
    coded = kdcode.compress(matrix, "20x", effort="fast")
    assert coded.codewords is not None
    transform = kdcode.compress(matrix, composition="transform", row_bytes=4 * 32 / 20, effort="fast")
    assert coded.provenance["relative_error"] < 0.7 * transform.provenance["relative_error"]


def test_a_plan_for_short_rows_looks_at_codewords():
    matrix = np.random.default_rng(0).normal(size=(20_000, 16)) @ np.random.default_rng(1).normal(size=(16, 16))
    planned = kdcode.plan(kdcode.VectorTable(None, matrix.astype(np.float32)), "20x", effort="fast")
    compositions = {candidate.options.composition for candidate in planned.candidates}
    assert "transform" in compositions
    assert len(compositions) > 1
    errors = [candidate.relative_error for candidate in planned.candidates]
    assert planned.recommended.relative_error == min(errors) < 0.15
