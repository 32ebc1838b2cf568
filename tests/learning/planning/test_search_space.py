"""The settings that a plan looks at."""

from __future__ import annotations

import pytest

from kdcode.learning.planning.search_space import (
    MOST_WORK,
    enough_groups,
    other_shapes,
    other_sizes,
    positions_in_sum,
    product_codes,
    short_sums,
    work_of,
)
from kdcode.options import CompressOptions


@pytest.mark.parametrize(
    ("changes", "positions"),
    [({}, 16), ({"composition": "product"}, 1), ({"composition": "grouped", "groups": 4}, 4)],
)
def test_work_is_the_additions_of_a_sweep(changes, positions):
    options = CompressOptions(codebook_size=32, code_length=16).changed(**changes)
    assert positions_in_sum(options) == positions
    assert work_of(options) == 16 * 32 * positions


def test_codes_that_are_too_long_get_as_few_groups_as_will_do():
    longest = CompressOptions(codebook_size=64, code_length=128)
    assert work_of(longest) > MOST_WORK
    setting = enough_groups(longest, 300)
    grouped = longest.changed(**setting)
    assert work_of(grouped) <= MOST_WORK < work_of(grouped.changed(groups=grouped.groups // 2))
    assert grouped.rotation
    assert enough_groups(longest, 3)["groups"] == 3  # there are no more than dimensions


def test_shapes_beside_the_best():
    best = CompressOptions(codebook_size=16, code_length=32, composition="grouped", groups=4)
    shapes = other_shapes(best, 64)
    assert {shape.get("groups") for shape in shapes} == {None, 2, 4, 8, 16}
    assert {shape["codebook_size"] for shape in shapes} == {16}
    assert [shape["codeword_dim"] for shape in shapes if "codeword_dim" in shape] == [48]
    assert {shape.get("rotation") for shape in shapes if "groups" in shape} == {False, True}
    assert other_shapes(best, 16) == []  # too few dimensions


def test_sizes_beside_the_best():
    best = CompressOptions(codebook_size=16, composition="product", code_length=8, rotation=True)
    sizes = other_sizes(best, 64)
    assert [size["codebook_size"] for size in sizes] == [8, 32, 16]
    assert all(size["composition"] == "product" and size["rotation"] for size in sizes)
    assert [size.get("codebook_dtype") for size in sizes] == [None, None, "float16"]
    assert [size["codebook_size"] for size in other_sizes(best.changed(codebook_size=2), 64)] == [4, 2]


def test_product_codes_come_with_a_rotation_and_without():
    assert [(one["codebook_size"], one["rotation"]) for one in product_codes([16, 256])] == [
        (16, False),
        (16, True),
        (256, False),
        (256, True),
    ]


def test_short_sums_are_for_many_bits():
    few, many = (CompressOptions(codebook_size=16, code_length=length) for length in (8, 40))
    assert short_sums([few], 64) == []
    assert {one["composition"] for one in short_sums([few, many], 64)} == {"product", "grouped"}
    assert {one["composition"] for one in short_sums([many], 16)} == {"product"}
