"""Numbers in words."""

import pytest

from kdcode import wording


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.684, "68%"), (1, "100%"), (0.9999, "more than 99%"), (0.994, "99%"), (0.0001, "less than 1%"), (0, "0%")],
)
def test_percent_is_neither_too_good_nor_too_bad(share, text):
    assert wording.percent(share) == text


def test_shared_codes_in_words():
    assert wording.shared_codes(0, 1200) == "none: each of the 1,200 symbols has a code of its own"
    assert wording.shared_codes(4, 1200, "rows") == "4 of 1,200 rows have the same code as another"
