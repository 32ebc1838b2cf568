"""Word similarity and analogies: what they score, held against gensim and against loops."""

import numpy as np
import pytest
from sample_tables import coded_table, words
from scipy import stats

from kdcode import VectorTable
from kdcode.data import glove_50d
from kdcode.errors import FormatError, TableError
from kdcode.evaluation import EvaluationOptions, WordScore, evaluate
from kdcode.evaluation.word_tests import read_analogies, read_similarity


@pytest.fixture
def file(tmp_path):
    def write(text, name="test.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def slow_answers(table, questions, vocabulary):
    """Whether 3CosAdd answers questions of row numbers, as it is defined."""
    units = table.matrix[:vocabulary].astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    right = []
    for a, b, c, d in questions:
        scores = (units @ (units[b] - units[a] + units[c])).round(6)
        scores[[a, b, c]] = -np.inf
        right.append(int(np.argmax(scores)) == d)
    return right


# Files


@pytest.mark.parametrize(
    "text",
    [
        "old\tnew\t1.58\nsmart\tclever\t9\n",
        "old new 1.58\nsmart clever 9",
        "Word 1,Word 2,Human (mean)\nold,new,1.58\nsmart,clever,9\n",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\r\nold\tnew\tA\t1.58\t2.72\r\nsmart\tclever\tA\t9\t1\r\n",
        "# made by hand\n\nold;new;1.58\n  smart  clever  9  \n",
        "\ufeffold new 1.58\nsmart clever 9\n",
    ],
)
def test_similarity_files_as_they_are_handed_out(file, text):
    test = read_similarity(file(text, "simlex.txt"))
    assert test == ("simlex", [("old", "new"), ("smart", "clever")], [1.58, 9.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("old new 1\nold new\n", "line 2: expected two words and a number, found 'old new'"),
        ("one two\nthree four\n", "line 2: expected two words and a number"),
        ("old new 1\n", "at least two lines of two words and a number, found 1"),
        ("", "at least two lines"),
        (b"old new 1\nold n\xffw 2\n", "line 2: .* is not UTF-8"),
    ],
)
def test_similarity_files_that_are_none(file, text, message):
    with pytest.raises(FormatError, match=message):
        read_similarity(file(text))


def test_analogy_files(file):
    path = file(": capitals\nAthens Greece Oslo Norway\n\n: plural\ncat cats dog dogs\ncar cars eye eyes\n", "g.txt")
    test = read_analogies(path)
    assert test.name == "g"
    assert {name: len(some) for name, some in test.sections.items()} == {"capitals": 1, "plural": 2}
    assert test.sections["capitals"] == [("Athens", "Greece", "Oslo", "Norway")]
    assert read_analogies(file("a b c d\n")).sections == {"": [("a", "b", "c", "d")]}


@pytest.mark.parametrize(
    ("text", "message"), [("a b c\n", "line 1: expected four words, or a section"), (": empty\n", "found none")]
)
def test_analogy_files_that_are_none(file, text, message):
    with pytest.raises(FormatError, match=message):
        read_analogies(file(text))


# Similarity


def test_similarity_is_spearmans_correlation_of_cosines(file):
    random = np.random.default_rng(0)
    names = words(40)
    original, copy = random.normal(size=(2, 40, 5)).astype(np.float32)
    chosen, scores = random.integers(40, size=(30, 2)), random.random(30).round(1)
    lines = [f"{names[i]} {names[j]} {s}" for (i, j), s in zip(chosen, scores, strict=True)]
    path = file("\n".join([*lines, "nobody has-these 3"]))
    found = evaluate(VectorTable(names, original), VectorTable(names, copy), similarity=[path]).tests[0]

    def cosines(matrix):
        units = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return np.einsum("ij,ij->i", units[chosen[:, 0]], units[chosen[:, 1]])

    assert found.original == pytest.approx(stats.spearmanr(cosines(original), scores).statistic, abs=1e-6)
    assert found.copy == pytest.approx(stats.spearmanr(cosines(copy), scores).statistic, abs=1e-6)
    assert (found.kind, found.used, found.total) == ("similarity", 30, 31)
    assert found.coverage == 30 / 31
    assert found.drop == found.original - found.copy
    assert found.as_dict()["drop"] == found.drop


def test_words_are_looked_up_as_written_and_else_in_lower_case(file):
    table = VectorTable(["Paris", "paris", "rome", "oslo"], [[1, 0], [0, 1], [1, 1], [1, 2]])
    path = file("Paris Rome 3\nparis ROME 1\nOSLO rome 2\nPARIS oslo 3\n")
    found = evaluate(table, table, similarity=[path]).tests[0]
    assert found.used == 4
    cosines = [0.5**0.5, 0.5**0.5, 3 / 10**0.5, 2 / 5**0.5]
    assert found.original == pytest.approx(stats.spearmanr([3, 1, 2, 3], cosines).statistic)


def test_only_words_that_both_tables_have_are_scored(file):
    random = np.random.default_rng(1)
    names = words(6)
    original = VectorTable(names, random.normal(size=(6, 3)))
    kept = [5, 0, 3, 2]
    copy = VectorTable([names[row] for row in kept], original.matrix[kept])
    lines = [f"{names[i]} {names[j]} {i + j}" for i in range(6) for j in range(i)]
    found = evaluate(original, copy, similarity=[file("\n".join(lines))]).tests[0]
    assert (found.used, found.total) == (6, 15)
    assert found.original == found.copy


def test_a_test_without_a_word_of_the_table_is_refused(file):
    table = VectorTable(["a", "b"], np.eye(2))
    with pytest.raises(TableError, match=r"test: 0 of its 2 pairs have both words .* symbols such as 'a', 'b'"):
        evaluate(table, table, similarity=[file("x y 1\ny z 2\n")])
    with pytest.raises(TableError, match="test: none of its 1 questions has all words among the first 2 rows"):
        evaluate(table, table, analogies=[file("a b x y\n")])


def test_files_are_read_before_anything_is_measured(tmp_path):
    with pytest.raises(FileNotFoundError):
        evaluate(None, None, similarity=[tmp_path / "nothing.txt"])


# Analogies


def questions_of(random, rows, count):
    return np.array([random.choice(rows, 4, replace=False) for _ in range(count)])


@pytest.mark.parametrize("vocabulary", [50, 5000, 9000])
def test_analogies_are_what_their_definition_says(file, vocabulary):
    random = np.random.default_rng(0)
    names = words(9000)
    table = VectorTable(names, random.normal(size=(9000, 7)).astype(np.float32))
    questions = questions_of(random, min(vocabulary, 60), 300)
    # Questions that are answered: d is what 3CosAdd finds.
    units = table.matrix / np.linalg.norm(table.matrix, axis=1, keepdims=True)
    for question in questions[::2]:
        a, b, c, _ = question
        scores = units[:vocabulary] @ (units[b] - units[a] + units[c])
        scores[[a, b, c]] = -9
        question[3] = np.argmax(scores)
    path = file("\n".join(" ".join(names[row] for row in question) for question in questions))
    options = EvaluationOptions(vocabulary=vocabulary)
    copy = VectorTable(names, table.matrix + random.normal(size=(9000, 7)).astype(np.float32) / 20)
    found = evaluate(table, copy, analogies=[path], options=options).tests[0]
    assert (found.used, found.total, found.vocabulary) == (300, 300, vocabulary)
    assert found.original == np.mean(slow_answers(table, questions, vocabulary)) >= 0.5
    assert found.copy == np.mean(slow_answers(copy, questions, vocabulary)) < found.original


def test_analogies_of_the_included_table_are_gensims(file):
    models = pytest.importorskip("gensim.models")
    table = glove_50d()
    keyed = models.KeyedVectors(50)
    keyed.add_vectors(list(table.symbols), np.asarray(table.matrix, dtype=np.float32))
    family = ("man woman", "king queen", "he she", "his her", "father mother", "son daughter", "brother sister")
    cities = ("paris france", "london england", "tokyo japan", "moscow russia", "berlin germany", "beijing china")
    lines = []
    for name, couples in (("family", family), ("capitals", cities)):
        lines += [f": {name}", *(f"{one} {other}" for one in couples for other in couples if one != other)]
    path = file("\n".join(lines))
    expected, sections = keyed.evaluate_word_analogies(str(path), restrict_vocab=5000)
    found = evaluate(table, table, analogies=[path], options=EvaluationOptions(vocabulary=5000)).tests[0]
    assert 0.3 < expected < 1
    assert found.original == found.copy == pytest.approx(expected)
    for section in sections[:2]:
        share = len(section["correct"]) / (len(section["correct"]) + len(section["incorrect"]))
        assert found.sections[section["section"]] == (pytest.approx(share), pytest.approx(share))
    assert found.as_dict()["sections"]["family"]["original"] == found.sections["family"][0]


def test_of_rows_that_are_equal_the_first_is_the_answer(file):
    # b − a + c is nearest to rows 3 and 4, which are the same: 3 is the answer.
    matrix = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 1], [0, 0, -1]]
    table = VectorTable([*"abcdef"], np.array(matrix, dtype=np.float32))
    found = evaluate(table, table, analogies=[file(": first\na b c d\n: second\na b c e\n: given\na b c c\n")]).tests[0]
    assert found.sections == {"first": (1, 1), "second": (0, 0), "given": (0, 0)}


def test_analogies_of_a_coded_table(file):
    coded = coded_table("grouped", rows=200, symbols=words(200))
    random = np.random.default_rng(0)
    questions = questions_of(random, 200, 100)
    path = file("\n".join(" ".join(words(200)[row] for row in question) for question in questions))
    found = evaluate(coded.to_table(), coded, analogies=[path]).tests[0]
    assert found.original == found.copy == np.mean(slow_answers(coded.to_table(), questions, 200))


def test_a_score_in_words():
    score = WordScore("similarity", "ws", 0.5, 0.6, 3, 4)
    assert score.drop == pytest.approx(-0.1)
    assert score.as_dict() == {
        "kind": "similarity",
        "name": "ws",
        "original": 0.5,
        "copy": 0.6,
        "used": 3,
        "total": 4,
        "drop": score.drop,
        "coverage": 0.75,
    }
