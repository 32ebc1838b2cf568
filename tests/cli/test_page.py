import json

import numpy as np
import pytest
from sample_tables import coded_table, words

from kdcode.cli import page
from kdcode.codec import Sizes


def test_sizes_by_hand():
    # 100 x 10 float32 are 4,000 bytes. 400 + 100 + 0 bytes stand for them: 8 times less. With 1,000 bytes of symbols
    # on both sides and 500 of header, 5,000 / 2,000 = 2.5.
    rows = page.size_rows(Sizes(codes=400, codebook=100, composition=0, symbols=1000), 100, 10, file_bytes=2000)
    assert [row.split() for row in rows] == [
        ["codes", "400", "B"],
        ["codebook", "100", "B"],
        ["composition", "0", "B"],
        ["embedding", "500", "B", "8.0x", "smaller", "than", "float32", "vectors"],
        ["symbols", "1,000", "B"],
        ["overhead", "500", "B", "header", "and", "digests"],
        ["file", "2,000", "B", "2.5x", "smaller", "than", "float32", "vectors", "with", "symbols"],
    ]


def test_a_promise_has_no_header():
    rows = page.size_rows(Sizes(codes=400, codebook=100, composition=0, symbols=1000), 100, 10)
    assert rows[-1].split()[:4] == ["total", "1,500", "B", "3.3x"]
    assert not any("overhead" in row for row in rows)


MEASURED = {
    "relative_error": 0.243,
    "mean_cosine": 0.892,
    "norm_error": 0.1,
    "weighted_error": 0.2,
    "recall_at_10": 0.684,
    "shared_codes": 132,
}


def test_quality_in_words():
    lines = page.quality(MEASURED, coded_table(rows=2000, symbols=words(2000)))
    assert lines == {
        "relative error": "0.2430   (0: perfect, 1: the mean vector for every row)",
        "weighted error": "0.2000   (the same with every row counted by its weight)",
        "mean cosine": "0.8920   (between a vector and its copy)",
        "nearest neighbours": "68% of the 10 nearest symbols are the same as before",
        "shared codes": "132 of 2,000 symbols have the same code as another",
    }
    assert max(len(f"  {line}") for line in page.pairs(lines)) <= 80
    small = page.quality({"recall_at_10": 1, "shared_codes": 0}, coded_table(rows=10))
    assert small == {
        "nearest neighbours": "100% of the nearest rows are the same as before",
        "shared codes": "none: each of the 10 rows has a code of its own",
    }


def test_quality_of_files_that_do_not_tell():
    assert page.quality({}, coded_table()) == {}
    assert page.quality({"relative_error": "low", "recall_at_10": None, "shared_codes": [3]}, coded_table()) == {}
    for hostile in (float("inf"), float("nan"), 10**400, True):
        assert page.quality(dict.fromkeys(MEASURED, hostile), coded_table()) == {}
    assert page.quality({"mean_cosine": 1}, coded_table()).keys() == {"mean cosine"}


def test_json_has_no_infinity(capsys):
    page.print_json({"a": [float("inf"), 1.5], "b": (1, 2)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": [1, 2]}


def test_shortest_numbers_are_the_same_float32():
    vector = np.array([0.1, 1 / 3, 1e-9, 123456.7], dtype=np.float32)
    assert page.shortest(vector)[0] == 0.1
    assert np.array_equal(np.array(page.shortest(vector), dtype=np.float32), vector)


@pytest.mark.parametrize(
    ("width", "text"), [(13, "one two three"), (12, "one two …"), (9, "one two …"), (8, "one …"), (5, "one …")]
)
def test_clipped_keeps_whole_words(width, text):
    assert page.clipped(["one", "two", "three"], width) == text
