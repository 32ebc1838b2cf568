from __future__ import annotations

from pathlib import Path

import pytest
import summary
from table_1_rows import PAPER, ROWS
from task_summary import task_items


def test_the_page_has_the_tables_of_the_results():
    page = summary.PAGE.read_text(encoding="utf-8")
    assert summary.page_with_tables(page) == page, "run python experiments/summary.py"


def test_every_experiment_is_on_it():
    scripts = {path.name for path in Path(summary.__file__).parent.glob("*.py") if "= Experiment(" in path.read_text()}
    items = [*summary.items(), *task_items(summary.result)]
    commands = {item.command.split()[0] for item in items}
    assert scripts - commands == {"clustering_search.py"}  # which picks the rates of clustering.py
    makefile = (Path(summary.__file__).parents[1] / "Makefile").read_text()
    assert "experiments/clustering_search.py" in makefile
    assert commands <= scripts


def test_every_row_of_table_1_is_on_it():
    rows = {item.command.split()[-1] for item in summary.items() if item.what.startswith("Table 1, small")}
    assert set(PAPER) <= rows <= set(ROWS)


def test_rows_are_named_as_the_paper_names_them():
    assert summary._shown("lstm-linear") == "LSTM + linear"
    assert summary._shown("algorithm-1-lstm-lstm") == "algorithm 1: LSTM + LSTM"
    assert summary._shown("linear-shared-lstm") == "linear + shared LSTM"


def test_claims_that_fail_are_told():
    (item,) = [item for item in summary.items() if item.what.startswith("clustering")]
    failed = [claim["claim"] for claim in summary.result("clustering")["claims"] if not claim["holds"]]
    assert all(claim in item.verdict for claim in failed)
    assert "k-means++" in item.ours


@pytest.mark.parametrize(("seconds", "text"), [(0.8, "1 s"), (99, "99 s"), (900, "15 min"), (7200, "2.0 h")])
def test_times_are_in_a_unit_that_suits_them(seconds, text):
    assert summary._time(seconds) == text


def test_a_page_without_marks_is_refused():
    with pytest.raises(SystemExit, match="has lost its marks"):
        summary.page_with_tables("nothing")
