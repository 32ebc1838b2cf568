"""The numbers of README and of the pages are those of the committed results, and README stays short."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLES = runpy.run_path(str(ROOT / "docs" / "make_tables.py"))


@pytest.mark.parametrize("path", TABLES["PAGES"], ids=lambda path: path.name)
def test_the_numbers_of_a_page_are_those_of_the_results(path):
    page = path.read_text(encoding="utf-8")
    assert TABLES["MARKED"].search(page)
    assert TABLES["filled"](page) == page, "run: make docs"


def test_every_part_stands_on_a_page():
    pages = "".join(path.read_text(encoding="utf-8") for path in TABLES["PAGES"])
    assert {match[2] for match in TABLES["MARKED"].finditer(pages)} == set(TABLES["PARTS"])


def test_no_page_has_a_table_of_numbers_that_is_not_from_a_result():
    for path in TABLES["PAGES"]:
        rest = TABLES["MARKED"].sub("", path.read_text(encoding="utf-8"))
        number = re.compile(r"(?<![A-Za-z\d])\d")  # the digit of word2vec is part of a name
        assert not [line for line in rest.splitlines() if line.startswith("|") and number.search(line)]


def test_a_marked_place_is_written_anew():
    page = "a\n<!-- results: equal_bits -->\nold\n<!-- end -->\nb\n"
    table = TABLES["equal_bits"]()
    assert TABLES["filled"](page) == page.replace("old\n", table)
    assert table.startswith("|  | bits |")
    assert table.splitlines()[1] == "|---|---|---|---|---|---|"


def cell(name, method, times, error):
    return {"table": name, "method": method, "times": times, "bytes": 1, "relative_error": error}


@pytest.fixture
def at_equal_bytes(monkeypatch):
    rows = [
        cell("glove-50k", "kdcode", 10, 0.0117),
        cell("glove-50k", "kdcode, fast", 10, 0.013),
        cell("glove-50k", "faiss PQ", 10, 0.03),
        cell("glove-50k", "Gaussian limit", 10, 0.0099),
        cell("minilm", "kdcode", 20, 0.4),
        cell("minilm", "faiss LSQ", 20, 0.3),
        {"table": "minilm", "method": "faiss RQ", "times": 20, "bytes": None, "unfinished_minutes": 12},
    ]
    parts = sys.modules["equal_bytes_tables"]
    monkeypatch.setattr(parts, "rows_of", lambda name: rows if name == "equal_bytes" else pytest.fail(name))
    return parts


def test_who_loses_least_at_equal_bytes_is_told(at_equal_bytes):
    assert at_equal_bytes.best_at_equal_bytes().splitlines()[2:] == [
        "| 50,000 words of GloVe: kdcode | **0.0117** | – |",
        "| best of the others | 0.0300 faiss PQ | – |",
        "| Gaussian limit | 0.0099 | – |",
        "| tokens of MiniLM: kdcode | – | 0.400 |",
        "| best of the others | – | 0.300 faiss LSQ |",
    ]
    told = at_equal_bytes.best_at_equal_bytes_in_words().replace("\n", " ")
    assert "loses least at 1 of 2 sizes of 2 tables**, but not for tokens of MiniLM at 20x (faiss LSQ)." in told
    assert "50,000 words of GloVe: 0.0117 at 10x (best other: faiss PQ, 0.0300)." in told


def test_every_method_at_equal_bytes_has_a_line_and_the_least_error_is_bold(at_equal_bytes):
    assert at_equal_bytes.equal_bytes() == (
        "| 50,000 words of GloVe | 10x | 20x |\n|---|---|---|\n| kdcode | **0.0117** | – |\n"
        "| kdcode, fast | 0.0130 | – |\n| faiss PQ | 0.0300 | – |\n| Gaussian limit | 0.0099 | – |\n"
        "\n| tokens of MiniLM | 10x | 20x |\n|---|---|---|\n| kdcode | – | 0.400 |\n| faiss LSQ | – | **0.300** |\n"
        "| faiss RQ | – | > 12 min |\n"
    )


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
