"""`kdcode evaluate`: what it prints, what it refuses, and its gates."""

import json

import numpy as np
import pytest
from sample_tables import coded_table

import kdcode
from kdcode.data import glove_50d
from kdcode.evaluation import EvaluationOptions
from kdcode.evaluation.code_use import code_use
from kdcode.evaluation.level_use import level_use


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "words.npy"
    kdcode.write(glove_50d().head(500), path)
    return path


@pytest.fixture
def copy(tmp_path):
    """The same table in integers from -7 to 7, as a file of another format."""
    table = glove_50d().head(500)
    step = np.abs(table.matrix).max(axis=1, keepdims=True) / 7
    path = tmp_path / "copy.parquet"
    kdcode.write(kdcode.VectorTable(table.symbols, np.rint(table.matrix / step) * step), path)
    return path


@pytest.fixture
def similarity(tmp_path):
    names = [symbol for symbol in glove_50d().symbols[:500] if symbol.isalpha()]
    pairs = zip(names, names[9:], strict=False)
    path = tmp_path / "pairs.txt"
    path.write_text("".join(f"{one} {other} {number}\n" for number, (one, other) in enumerate(pairs)))
    return path


@pytest.fixture
def analogies(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(": family\nhe she his her\nhis her he she\n: far\nhe she nowhere-to-be-found her\n")
    return path


def test_both_tables_side_by_side(run, original, copy, similarity, analogies):
    result = run("evaluate", original, copy, "--similarity", similarity, "--analogies", analogies, "--weights", "rank")
    assert result.exit_code == 0, result.stderr
    found = kdcode.evaluate(original, copy, "rank", similarity=[similarity], analogies=[analogies])
    lines = result.stdout.splitlines()
    assert lines[0] == f"compared with {original}: all 500 symbols"
    assert lines[2].split() == ["original", "compressed", "difference", "by", "weight"]
    error, weighted = found.relative_error, found.weighted.relative_error
    assert lines[4].split() == ["relative", "error", "0.0000", f"{error:.4f}", f"{error:+.4f}", f"{weighted:.4f}"]
    pairs, questions = found.tests
    assert f"pairs, {pairs.used} of {pairs.used} pairs {pairs.original:.4f} {pairs.copy:.4f}" in " ".join(
        result.stdout.split()
    )
    assert f"questions, 2 of 3 questions {questions.original:.4f}" in " ".join(result.stdout.split())
    worst = lines.index(next(line for line in lines if line.startswith("worst rows")))
    assert [line.split()[0] for line in lines[worst + 1 : worst + 11]] == [row.symbol for row in found.worst]
    assert "recall is measured for all rows, rank correlation for 100,000 pairs, drawn with seed 0" in result.stdout
    assert "codewords" not in result.stdout


def test_json_has_everything(run, original, copy, similarity):
    flags = ["--similarity", similarity, "--seed", "3", "--queries", "100", "--worst", "2", "--min-cosine", "0.5"]
    told = json.loads(run("evaluate", original, copy, *flags, "--json", "--quiet").stdout)
    options = EvaluationOptions(seed=3, queries=100, worst=2)
    found = kdcode.evaluate(original, copy, similarity=[similarity], options=options)
    assert told.items() >= json.loads(json.dumps(found.as_dict())).items()
    assert (told["original"], told["compressed"]) == (str(original), str(copy))
    assert (told["original_bytes"], told["compressed_bytes"]) == (500 * 50 * 4, 500 * 50 * 4)
    assert told["codes"] is None
    assert told["passed"] is True
    assert [gate["gate"] for gate in told["gates"]] == ["min_cosine", "max_missing"]


def test_a_coded_table_tells_of_its_codes(run, kdc, coded, tmp_path):
    kdcode.write(coded.to_table(), tmp_path / "original.parquet")
    result = run("evaluate", tmp_path / "original.parquet", kdc)
    assert result.exit_code == 0, result.stderr
    use = code_use(coded)
    assert f"unused codewords  {use.unused.sum()} of 12" in result.stdout
    assert f"entropy           {use.entropy:.1f} of 6.0 bits" in result.stdout
    assert "shared codes      5 of 6 symbols have the same code as another" in result.stdout
    told = json.loads(run("evaluate", kdc, kdc, "--json").stdout)  # a .kdc file may be the original, too
    assert told["codes"] == use.as_dict()
    assert told["relative_error"] == 0


def test_transform_codes_tell_of_their_levels(run, tmp_path):
    coded = coded_table("transform", rows=60, dim=7)
    kdcode.save(coded, tmp_path / "t.kdc")
    result = run("evaluate", tmp_path / "t.kdc", tmp_path / "t.kdc")
    assert result.exit_code == 0, result.stderr
    use = level_use(coded)
    assert f"levels        7 for each row, from −{use.largest} to {use.largest}" in result.stdout
    assert f"{use.entropy:.1f} bits, in rows of {8 * use.mean_bytes:.1f} bits on average" in result.stdout
    told = json.loads(run("evaluate", tmp_path / "t.kdc", tmp_path / "t.kdc", "--json").stdout)
    assert told["codes"] == use.as_dict()


def test_gates_that_are_passed(run, original, copy):
    result = run("evaluate", original, copy, "--min-cosine", "0.9", "--max-error", "0.2", "--min-recall", "0.5")
    assert result.exit_code == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[-4:]] == ["passed"] * 4
    assert "FAILED" not in result.stdout


def test_gates_that_fail_say_what_and_end_with_1(run, original, copy, similarity):
    found = kdcode.evaluate(original, copy, similarity=[similarity])
    result = run(
        "evaluate", original, copy, "--min-cosine", "0.9999", "--max-error", "0.5", "--similarity", similarity,
        "--max-drop", "0", "--min-recall", "1",
    )  # fmt: skip
    assert result.exit_code == 1
    recall = f"recall@10 {found.recall_at_10:.6g} is below 1 (--min-recall)"
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert recall in result.stderr
    assert f"mean cosine {found.mean_cosine:.6g} is below 0.9999 (--min-cosine)" in result.stderr
    assert "--max-error" not in result.stderr
    assert "FAILED  mean cosine" in result.stdout
    assert "passed  relative error" in result.stdout
    told = run("evaluate", original, copy, "--min-cosine", "0.9999", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["passed"] is False


def test_symbols_that_are_missing_fail_where_there_is_a_gate(run, original, tmp_path):
    table = kdcode.read(original)
    kdcode.write(table.select(slice(20, None)), tmp_path / "short.npy")
    plain = run("evaluate", original, tmp_path / "short.npy")
    assert plain.exit_code == 0
    assert "20 symbols are only in" in plain.stdout
    assert run("evaluate", original, tmp_path / "short.npy", "--max-error", "1").exit_code == 1
    assert run("evaluate", original, tmp_path / "short.npy", "--max-error", "1", "--max-missing", "20").exit_code == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max-drop", "0.1"], "--max-drop is a bound for scores of word tests; give files with --similarity"),
        (["--min-weighted-recall", "0.1"], "--min-weighted-recall is a bound for measures by weight; give --weights"),
        (["--min-cosine", "90"], "--min-cosine must be a number from -1 to 1"),
        (["--queries", "0"], "--queries must be an integer of at least 1"),
    ],
)
def test_flags_that_cannot_be_are_refused_before_anything_is_read(run, tmp_path, flags, message):
    (tmp_path / "no table").write_text("")
    result = run("evaluate", tmp_path / "no table", tmp_path / "no table", *flags)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("flag", ["--similarity", "--analogies", "--weights"])
def test_files_are_looked_at_before_tables_are_read(run, tmp_path, flag):
    (tmp_path / "no table").write_text("")
    (tmp_path / "bad.txt").write_text("one two three\nfour\n")
    result = run("evaluate", tmp_path / "no table", tmp_path / "no table", flag, tmp_path / "bad.txt")
    assert result.exit_code == 1
    assert "bad.txt" in result.stderr


def test_weights_of_a_file(run, original, copy, tmp_path):
    (tmp_path / "weights.txt").write_text("the 5\nof 1\n")
    told = json.loads(run("evaluate", original, copy, "--weights", tmp_path / "weights.txt", "--json").stdout)
    weights = np.zeros(500)
    symbols = list(kdcode.read(original).symbols)
    weights[[symbols.index("the"), symbols.index("of")]] = 5, 1
    expected = kdcode.evaluate(original, copy, weights).weighted
    assert told["weighted"]["mean_cosine"] == pytest.approx(expected.mean_cosine)


def test_flags_of_reading_count_for_the_tables_that_they_mean_something_for(run, tmp_path):
    table = glove_50d().head(60)
    np.savez(tmp_path / "original.npz", wanted=table.matrix, other=np.ones((99, 70), dtype=np.float32))
    np.save(tmp_path / "copy.npy", table.matrix)
    result = run("evaluate", tmp_path / "original.npz", tmp_path / "copy.npy", "--tensor", "wanted", "--max-error", "0")
    assert result.exit_code == 0, result.stderr
    assert "row by row" in result.stdout


def test_a_kdc_file_from_standard_input_is_known_by_its_content(kdc, start):
    with kdc.open("rb") as stream:
        process = start("evaluate", kdc, "-", "--json", "--max-error", "0", stdin=stream)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["codes"]["code_length"] == 3


def test_symbols_are_made_safe_to_print(run, tmp_path):
    table = kdcode.VectorTable(["a\x1b[31mred", "b"], np.eye(2))
    kdcode.write(table, tmp_path / "odd.parquet")
    assert "\x1b" not in run("evaluate", tmp_path / "odd.parquet", tmp_path / "odd.parquet").stdout
