"""How many rows are coded together."""

import numpy as np
import pytest

import kdcode
from kdcode.errors import OptionError
from kdcode.learning.transform.sampling import chosen_rows_per_block


def rows_of(count=20_000, dim=16, spread=0.0, seed=0):
    random = np.random.default_rng(seed)
    return (random.normal(size=(count, dim)) * np.exp(spread * random.normal(size=(count, 1)))).astype(np.float32)


@pytest.mark.parametrize(
    ("dim", "times", "expected"), [(8, 10, 16), (16, 10, 8), (32, 10, 4), (50, 10, 2), (100, 10, 1), (384, 80, 1)]
)
def test_narrow_rows_are_coded_together(dim, times, expected):
    table = kdcode.VectorTable(None, rows_of(20_000, dim))
    assert chosen_rows_per_block(table, len(table), 4 * dim / times) == expected


def test_short_rows_make_larger_blocks():
    table = kdcode.VectorTable(None, rows_of(20_000, 100))
    assert [chosen_rows_per_block(table, 20_000, size) for size in (40.0, 10.0, 5.0)] == [1, 2, 4]


def test_rows_that_differ_much_in_scale_are_coded_alone():
    by_spread = [
        chosen_rows_per_block(kdcode.VectorTable(None, rows_of(spread=spread)), 20_000, 6.4)
        for spread in (0, 0.3, 0.6, 1.2)
    ]
    assert by_spread == sorted(by_spread, reverse=True)
    assert (by_spread[0], by_spread[-1]) == (8, 1)


def test_sparse_rows_of_few_numbers_are_not_small_rows():
    matrix = rows_of(20_000, 100) * (np.random.default_rng(1).random((20_000, 100)) < 0.05)
    table = kdcode.VectorTable(None, matrix.astype(np.float32))
    assert [chosen_rows_per_block(table, 20_000, size) for size in (40.0, 10.0, 5.0)] == [1, 2, 4]


@pytest.mark.parametrize(("share", "size", "expected"), [(0.1, 6.4, 8), (0.3, 6.4, 1), (0.2, 3.2, 8), (1.0, 6.4, 8)])
def test_a_few_rows_of_zeros_do_not_keep_others_from_being_coded_together(share, size, expected):
    matrix = rows_of()
    matrix[np.random.default_rng(1).random(len(matrix)) < share] = 0
    assert chosen_rows_per_block(kdcode.VectorTable(None, matrix), 20_000, size) == expected


def test_weights_count_as_scales():
    matrix = rows_of()
    weights = np.random.default_rng(1).choice([0.01, 1.0], size=len(matrix)).astype(np.float32)
    assert chosen_rows_per_block(kdcode.VectorTable(None, matrix, weights), 20_000, 6.4) < 8


def test_a_small_table_keeps_many_blocks():
    assert chosen_rows_per_block(kdcode.VectorTable(None, rows_of(300)), 300, 6.4) == 1
    assert chosen_rows_per_block(kdcode.VectorTable(None, rows_of(1100)), 1100, 6.4) == 4


@pytest.mark.parametrize("size", ["8x", *(pytest.param(size, marks=pytest.mark.slow) for size in ("20x", "40x"))])
def test_blocks_lose_less_within_the_same_bytes(size):
    matrix = rows_of(6000, 12)
    errors, row_bytes = {}, 48 / int(size[:-1])
    for rows in (1, 8):
        coded = kdcode.compress(
            matrix, composition="transform", row_bytes=row_bytes, effort="fast", rows_per_block=rows
        )
        assert coded.spec.rows_per_block == rows
        assert (0.99 if rows > 1 else 0.8) < coded.sizes.embedding / (row_bytes * len(matrix)) <= 1
        errors[rows] = coded.provenance["relative_error"]
    assert errors[8] < 0.92 * errors[1]
    planned = kdcode.compress(matrix, size, effort="fast")
    assert planned.spec.rows_per_block == (8 if size != "40x" else 16)


def test_a_size_below_a_byte_a_row():
    matrix = rows_of(8000, 8)
    coded = kdcode.compress(matrix, "60x", effort="fast")
    assert coded.spec.rows_per_block == 16
    assert coded.sizes.embedding <= matrix.nbytes / 60
    assert coded.provenance["relative_error"] < 0.75


def test_the_number_is_for_transform_codes():
    with pytest.raises(OptionError, match="rows_per_block is for transform codes"):
        kdcode.compress(rows_of(100), "10x", rows_per_block=4, codewords=True)
    with pytest.raises(OptionError, match="rows_per_block is for transform codes"):
        kdcode.compress(rows_of(100), codebook_size=4, code_length=4, rows_per_block=4)
    with pytest.raises(OptionError, match="rows_per_block must be an integer from 1 to 64, got 65"):
        kdcode.compress(rows_of(100), "10x", rows_per_block=65)
