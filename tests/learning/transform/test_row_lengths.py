"""Which lengths rows may have."""

import numpy as np

from kdcode.codec.transform.spec import MAX_CLASSES
from kdcode.learning.transform.row_lengths import (
    RowKind,
    chosen_classes,
    chosen_lengths,
    row_kinds,
    with_spare_lengths,
)


def test_lengths_are_those_with_the_fewest_bytes():
    lengths = np.array([3] * 60 + [4] * 10 + [9] * 40 + [30])
    assert chosen_lengths(lengths, 8) == (3, 4, 9, 30)
    assert chosen_lengths(lengths, 3) == (3, 9, 30)
    assert chosen_lengths(lengths, 1) == (30,)


def test_there_are_as_many_lengths_as_rows_that_differ_make_worth_while():
    random = np.random.default_rng(0)
    assert chosen_classes(np.full(500, 40)) == 1
    few, many = (chosen_classes(np.rint(random.normal(100, spread, 2000)).astype(int)) for spread in (0.6, 12))
    assert few < many


def test_a_longer_and_a_shorter_length_are_added_where_there_are_classes_for_them():
    assert with_spare_lengths(np.array([10, 20, 30, 40]), 4, 25.0) == (10, 20, 30, 40)
    assert with_spare_lengths(np.array([24, 25, 30, 40]), 4, 25.0) == (24, 25, 30, 40)
    assert with_spare_lengths(np.array([20, 30, 40]), 4, 25.0) == (20, 30, 40, 44)
    assert with_spare_lengths(np.array([24, 25, 26, 27, 28]), 8, 25.0) == (20, 24, 25, 26, 27, 28, 31)
    assert with_spare_lengths(np.array([30]), 4, 25.5) == (25,)


def test_one_of_several_lengths_makes_room_for_a_shorter_one():
    natural = np.repeat([34, 35, 36, 37, 38, 39, 40, 50], [9, 9, 9, 1, 9, 9, 9, 9])
    assert with_spare_lengths(natural, 8, 35.0) == (28, 34, 35, 36, 38, 39, 40, 50)
    assert with_spare_lengths(natural, 8, 36.0) == (34, 35, 36, 37, 38, 39, 40, 50)


def test_every_scale_has_the_lengths_that_its_rows_need_and_the_shortest_and_the_longest():
    lengths = (10, 12, 14, 16, 18, 40)
    taken = np.concatenate([np.resize([10, 12, 14], 200), np.full(200, 16), [10, 12, 14, 16, 18]])
    assert row_kinds(lengths, taken, None) == [RowKind(1.0, place) for place in range(6)]
    scales = np.repeat([0.5, 1.0, 4.0], [200, 200, 5])
    found = {}
    for scale, place in row_kinds(lengths, taken, scales):
        found.setdefault(scale, []).append(lengths[place])
    assert found[0.5] == [10, 12, 14, 40]
    assert found[1.0] == [10, 16, 40]
    assert found[4.0][-2:] == [18, 40]  # few rows, and so at most four lengths beside the shortest and the longest
    assert len(found[4.0]) <= 6


def test_no_more_kinds_than_a_codec_may_have():
    lengths, octaves = tuple(range(10, 74)), np.arange(10)
    taken = np.tile(lengths, len(octaves))
    kinds = row_kinds(lengths, taken, np.repeat(2.0**octaves, len(lengths)))
    assert MAX_CLASSES / 4 < len(kinds) <= MAX_CLASSES
    assert {kind.scale for kind in kinds} == set(2.0**octaves)
    for scale in 2.0**octaves:
        assert RowKind(scale, len(lengths) - 1) in kinds
