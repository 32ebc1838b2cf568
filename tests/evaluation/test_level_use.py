"""Which levels a table of transform codes uses."""

import numpy as np
import pytest
from sample_tables import TRANSFORM_NAMES, coded_table

from kdcode.evaluation.level_use import level_use


@pytest.mark.parametrize("kind", TRANSFORM_NAMES)
def test_levels_are_counted_with_their_signs(kind):
    coded = coded_table(kind, rows=200, dim=7)
    use = level_use(coded)
    values = np.asarray(coded.codes[:, :7], dtype=np.int64)
    levels = np.where(values % 2, (values + 1) // 2, -(values // 2))
    assert use.largest == np.abs(levels).max()
    for coordinate, level in [(0, 0), (0, 1), (6, -1), (3, use.largest), (2, -use.largest)]:
        assert use.counts[coordinate, level + use.largest] == (levels[:, coordinate] == level).sum()
    assert use.counts.sum() == levels.size
    together = coded.spec.rows_per_block
    assert use.mean_bytes == np.array(coded.spec.lengths)[coded.codes[::together, -2]].sum() / 200
    shares = np.unique(levels[:, 4], return_counts=True)[1] / 200
    assert use.entropies[4] == pytest.approx(-(shares * np.log2(shares)).sum())


def test_codewords_are_not_levels():
    assert level_use(coded_table("product", rows=5)) is None
