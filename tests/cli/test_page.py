import json

import numpy as np
import pytest

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
        ["header", "500", "B"],
        ["file", "2,000", "B", "2.5x", "smaller", "than", "float32", "vectors", "with", "symbols"],
    ]


def test_a_promise_has_no_header():
    rows = page.size_rows(Sizes(codes=400, codebook=100, composition=0, symbols=1000), 100, 10)
    assert rows[-1].split()[:4] == ["total", "1,500", "B", "3.3x"]
    assert not any("header" in row for row in rows)


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("king", "king"),
        ("new york", "new york"),
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("naïve", "naïve"),
    ],
)
def test_shown_symbols_cannot_break_a_line(symbol, text):
    assert page.shown(symbol) == text


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
