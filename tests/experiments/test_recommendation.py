from __future__ import annotations

import json

import pytest
from recommendation import AFTER, BIASES, FULL, LEARNED, ROWS, SHORT, made_up_ratings, read_ratings


@pytest.fixture(scope="module")
def tiny(run_tiny):
    return run_tiny("recommendation", "--seeds", "1")


def test_every_row_is_trained_and_counted(tiny):
    folder, printed = tiny
    result = json.loads((folder / "results" / "recommendation.json").read_text())
    rows = {row["row"]: row for row in result["rows"]}
    assert list(rows) == list(ROWS)
    assert rows[BIASES]["bytes"] == 4 * 140
    assert rows[FULL]["bytes"] == 4 * 140 * 17
    assert rows[SHORT]["smaller"] == 2
    assert rows[AFTER]["smaller"] >= 2
    assert rows[LEARNED]["smaller"] >= 2
    assert rows[FULL]["test_rmse"] < 0.8 * rows[BIASES]["test_rmse"]
    assert rows[LEARNED]["test_rmse"] < 0.9 * rows[BIASES]["test_rmse"]
    assert all(row in printed for row in ROWS)


def test_ratings_are_read_and_split(tmp_path):
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    lines += [f"{7 + number % 3}\t{20 + number % 5}\t{1 + number % 5}\t88125" for number in range(20)]
    (tmp_path / "ml-100k.inter").write_text("\n".join(lines))
    task = read_ratings(tmp_path)
    assert (task.users, task.items) == (3, 5)
    assert [len(part.rating) for part in (task.train, task.valid, task.test)] == [16, 2, 2]
    assert (task.train.item + 1).tolist() == task.train.rating.tolist()  # columns stay together


def test_a_split_is_always_the_same():
    assert made_up_ratings().test.user.tolist() == made_up_ratings().test.user.tolist()
