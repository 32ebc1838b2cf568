from __future__ import annotations

from penn_treebank import made_up_corpus, read_corpus


def test_words_are_numbered_by_frequency_and_a_line_ends_with_a_word(tmp_path):
    (tmp_path / "ptb.train.txt").write_text(" the cat \n the dog ran \n the end \n")
    (tmp_path / "ptb.valid.txt").write_text("cat the\n")
    (tmp_path / "ptb.test.txt").write_text("dog\nran\n")
    corpus = read_corpus(tmp_path)
    assert corpus.words == ["<eos>", "the", "cat", "dog", "end", "ran"]
    assert corpus.train.tolist() == [1, 2, 0, 1, 3, 5, 0, 1, 4, 0]
    assert corpus.valid.tolist() == [2, 1, 0]
    assert corpus.test.tolist() == [3, 0, 5, 0]


def test_a_share_of_the_text_leaves_words_and_other_parts_whole():
    corpus = made_up_corpus()
    half = corpus.head(0.5)
    assert half.train.tolist() == corpus.train.tolist()[: len(corpus.train) // 2]
    assert half.valid.tolist() == corpus.valid.tolist()
    assert half.words == corpus.words


def test_made_up_text_is_the_same_every_time_and_uses_known_words():
    first, second = made_up_corpus(), made_up_corpus()
    assert first.test.tolist() == second.test.tolist()
    assert max(first.train) < len(first.words)
