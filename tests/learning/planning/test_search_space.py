"""The search space of a plan: ladders of codebook sizes, each with the longest code that fits."""

from __future__ import annotations

import pytest

from kdcode.learning.planning.search_space import (
    PRODUCT_SIZES,
    SUM_SIZES,
    begin_with,
    enough_groups,
    fuller_codes,
    longest_codes,
    product_ladder,
    rotation_is_cheap,
    sum_ladder,
    work_of,
)
from kdcode.options import CompressOptions

FAST = CompressOptions.of(effort="fast")


def at_most(ratio, rows, dim):
    return lambda options: options.spec(dim).ratio(rows) >= ratio


@pytest.mark.parametrize("ladder", [sum_ladder(), sum_ladder(4), product_ladder(True), product_ladder(False)])
def test_each_setting_has_the_longest_code_that_fits(ladder):
    fits = at_most(20, 5000, 64)
    found = longest_codes(FAST, ladder, 64, fits)
    assert len(found) >= 3
    assert [one.codebook_size for one in found] == sorted({one.codebook_size for one in found})
    for options in found:
        assert fits(options)
        longer = options.code_length + 1
        assert (options.composition == "product" and longer > 64) or not fits(options.changed(code_length=longer))
        assert options.codebook_dtype == "int8"
        assert options.effort == "fast"


def test_a_larger_codebook_is_better_with_a_code_as_long():
    found = longest_codes(FAST, sum_ladder(), 100, at_most(80, 50_000, 100))
    lengths = {one.codebook_size: one.code_length for one in found}
    assert lengths[64] == 5
    assert lengths[256] == 3
    assert 128 not in lengths  # three positions of 7 bits take as many bytes as three of 8
    assert list(lengths.values()) == sorted(set(lengths.values()), reverse=True)


def test_a_codebook_of_any_size_may_leave_fewer_bytes_unused():
    fits = at_most(80, 100_000, 100)
    found = fuller_codes(FAST.changed(codebook_dtype="int8", codebook_size=128, code_length=4), fits)
    assert [(one.codebook_size, one.code_length) for one in found] == [(249, 4), (64, 5)]
    for options in found:
        assert fits(options)
        assert not fits(options.changed(codebook_size=options.codebook_size + 1))
    full = FAST.changed(codebook_dtype="int8", codebook_size=249, code_length=4)
    assert fuller_codes(full, fits) == []


def test_what_does_not_fit_at_all_is_left_out():
    found = longest_codes(FAST, sum_ladder(), 64, at_most(250, 100, 64))
    assert [options.codebook_size for options in found] == []
    assert [one.codebook_size for one in longest_codes(FAST, sum_ladder(), 64, at_most(60, 100, 64))] == [2, 4]


def test_ladders_have_all_sizes():
    assert tuple(setting["codebook_size"] for setting in sum_ladder()) == SUM_SIZES
    assert tuple(setting["codebook_size"] for setting in product_ladder(True)) == PRODUCT_SIZES
    assert {setting["groups"] for setting in sum_ladder(4)} == {4}


def test_the_search_begins_where_the_codebook_has_its_share():
    ladder = [FAST.changed(codebook_size=size, code_length=8, codebook_dtype="int8") for size in SUM_SIZES]
    few, many = (ladder[begin_with(ladder, 64, rows, 0.1)].codebook_size for rows in (1_000, 30_000))
    assert few < many
    assert many < ladder[begin_with(ladder, 64, 30_000, 0.3)].codebook_size


def test_long_sums_are_split_into_groups():
    assert enough_groups(FAST.changed(codebook_size=16, code_length=30), 300) == 1
    long = FAST.changed(codebook_size=16, code_length=300)
    groups = enough_groups(long, 300)
    assert groups > 1
    assert work_of(long.spec(300), groups) <= 1 << 18 < work_of(long.spec(300), groups // 2)
    assert enough_groups(long, 8) <= 4


def test_a_rotation_is_cheap_for_many_rows():
    options = FAST.changed(
        composition="product", codebook_size=16, code_length=20, rotation=True, codebook_dtype="int8"
    )
    assert rotation_is_cheap(options, 100, 50_000)
    assert not rotation_is_cheap(options, 100, 2_000)
