from __future__ import annotations

from pathlib import Path

import pytest
import summary
from task_summary import task_items


def test_the_page_has_the_tables_of_the_results():
    page = summary.PAGE.read_text(encoding="utf-8")
    assert summary.page_with_tables(page) == page, "run python experiments/summary.py"


def test_every_experiment_is_on_it():
    scripts = {path.name for path in Path(summary.__file__).parent.glob("*.py") if "= Experiment(" in path.read_text()}
    items = [*summary.items(), *task_items(summary.result)]
    commands = {item.command.split()[0] for item in items}
    assert scripts - commands == {"clustering_search.py"}  # which picks the rates of clustering.py
    assert commands <= scripts


def test_every_row_of_table_1_is_on_it():
    rows = [item.command.split()[-1] for item in summary.items() if item.what.startswith("Table 1, small")]
    assert rows == list(summary.VERDICTS)


def test_perplexities_are_compared_with_the_full_table():
    assert summary._beside(114.53, 114.53) == "114.5"
    assert summary._beside(144.32, 114.53) == "144.3 (+26%)"
    assert summary._beside(111.13, 114.53) == "111.1 (-3%)"


@pytest.mark.parametrize(("seconds", "text"), [(0.8, "1 s"), (99, "99 s"), (900, "15 min"), (7200, "2.0 h")])
def test_times_are_in_a_unit_that_suits_them(seconds, text):
    assert summary._time(seconds) == text


def test_a_page_without_marks_is_refused():
    with pytest.raises(SystemExit, match="has lost its marks"):
        summary.page_with_tables("nothing")
