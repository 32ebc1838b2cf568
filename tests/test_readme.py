"""The numbers of README and of the pages are those of the committed results, and README stays short."""

from __future__ import annotations

import re
import runpy
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


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
