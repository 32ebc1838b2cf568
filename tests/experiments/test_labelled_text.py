from __future__ import annotations

from labelled_text import PADDING, UNKNOWN, made_up_task, make_task, read_task


def test_words_of_training_and_known_words_have_rows():
    train, valid = [(0, ["b", "a", "b"]), (1, ["c"])], [(1, ["new", "b", "other"])]
    task = make_task(train, valid, [(0, ["a"])], known={"new"})
    assert task.words == ["<padding>", "<unknown>", "b", "a", "c", "new"]
    assert task.counts.tolist() == [0, 0, 2, 1, 1, 0]
    assert task.valid.ids.tolist() == [[5, 2, UNKNOWN]]
    assert task.train.ids.tolist() == [[2, 3, 2], [4, PADDING, PADDING]]
    assert task.classes == 2


def test_a_task_without_validation_sentences_holds_out_a_fixed_tenth(tmp_path):
    (tmp_path / "trec").mkdir()
    lines = [f"{number % 3} What is w{number} caf\xe9" for number in range(40)]
    for name, part in (("train", lines), ("test", lines[:5])):
        (tmp_path / "trec" / f"TREC.{name}.all").write_text("\n".join(part), encoding="latin-1")
    task = read_task(tmp_path, "trec")
    assert [len(part.labels) for part in (task.train, task.valid, task.test)] == [36, 4, 5]
    again = read_task(tmp_path, "trec")
    assert task.words == again.words
    assert task.valid.ids.tolist() == again.valid.ids.tolist()
    assert {"what", "café", "<unknown>"} <= set(task.words)


def test_made_up_sentences_tell_their_class():
    task = made_up_task()
    assert set(task.test.labels.tolist()) == {0, 1}
