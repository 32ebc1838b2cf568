"""`kdcode report`: the page it writes, what it prints, what it refuses."""

import json

import numpy as np
import pytest

import kdcode


@pytest.fixture
def made(tmp_path, coded, kdc):
    """The folder with small.kdc and the table that it could be made from."""
    noise = np.random.default_rng(0).normal(size=(6, 2)) / 10
    kdcode.write(
        kdcode.VectorTable(list(coded.symbols), (np.array(coded) + noise).astype(np.float32)), tmp_path / "o.parquet"
    )
    return tmp_path


def test_the_page_is_written_and_named(run, made, kdc):
    result = run("report", made / "o.parquet", kdc, "-o", made / "page.html", "--quiet")
    assert result.exit_code == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("small.kdc is ")
    size = (made / "page.html").stat().st_size
    assert second == f"{made / 'page.html'}  {size:,} B, open it in a browser"
    assert result.stderr == ""
    text = (made / "page.html").read_text(encoding="utf-8")
    assert "new\\\\nline" in text
    assert f"kdcode report {made / 'o.parquet'} {kdc} -o {made / 'page.html'}" in text


def test_what_was_measured_as_json(run, made, kdc):
    result = run("report", made / "o.parquet", kdc, "-o", made / "page.html", "--json", "--quiet", "--rows", 4)
    found = json.loads(result.stdout)
    assert found["page"] == str(made / "page.html")
    assert found["symbols_in_page"] == 4
    measured = kdcode.evaluate(made / "o.parquet", kdc)
    assert found["relative_error"] == pytest.approx(measured.relative_error)
    assert found["verdict"].startswith("small.kdc is ")


def test_the_page_on_standard_output(run, made, kdc):
    result = run("report", made / "o.parquet", kdc, "-o", "-", "--quiet")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stderr.startswith("small.kdc is ")
    assert run("report", made / "o.parquet", kdc, "-o", "-", "--json").exit_code == 2


def test_a_page_that_exists_is_replaced_only_if_asked(run, made, kdc):
    page = made / "page.html"
    page.write_text("mine")
    result = run("report", made / "o.parquet", kdc, "-o", page)
    assert result.exit_code == 1
    assert "--force replaces it" in result.stderr
    assert page.read_text() == "mine"
    assert run("report", made / "o.parquet", kdc, "-o", page, "--force", "--quiet").exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    refused = run("report", made / "o.parquet", kdc, "-o", kdc, "--force")
    assert refused.exit_code == 1
    assert "is the input itself" in refused.stderr
    assert kdcode.load(kdc).code_of("france") == (3, 1, 2)


def test_weights_decide_which_symbols_are_in_the_page(run, made, kdc):
    (made / "w.txt").write_text("monday 1\ntuesday 2\nwednesday 3\nfrance 9\nParis 8\n", encoding="utf-8")
    result = run(
        "report", made / "o.parquet", kdc, "--weights", made / "w.txt", "--rows", 2, "-o", made / "p.html", "--quiet"
    )
    assert result.exit_code == 0, result.stderr
    text = (made / "p.html").read_text(encoding="utf-8")
    assert '"symbols":["france","Paris"]' in text
    assert f"--weights {made / 'w.txt'} --rows 2" in text


def test_any_table_can_be_the_compressed_one(run, made):
    kdcode.write(kdcode.read(made / "o.parquet"), made / "same.csv")
    result = run("report", made / "o.parquet", made / "same.csv", "-o", made / "p.html", "--quiet")
    assert result.stdout.startswith("same.csv is ")
    assert "no codewords" in (made / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"codebook_size": 8, "code_length": 4}, "--codebook-size 8 --code-length 4"),
        (
            {"codebook_size": 8, "code_length": 4, "effort": "fast", "seed": 3},
            "--codebook-size 8 --code-length 4 --seed 3 --effort fast",
        ),
        (
            {"codebook_size": 8, "code_length": 4, "composition": "product", "rotation": True, "effort": "fast"},
            "--codebook-size 8 --code-length 4 --composition product --rotation --effort fast",
        ),
        (
            {"codebook_size": 8, "code_length": 4, "learner": "random", "codebook_dtype": "int8"},
            "--codebook-size 8 --code-length 4 --codebook-dtype int8 --learner random",
        ),
    ],
)
def test_the_command_in_the_page_makes_the_same_file(run, words, tmp_path, changes, line):
    coded = kdcode.compress(words, **changes)
    kdcode.save(coded, tmp_path / "a.kdc")
    run("report", words, tmp_path / "a.kdc", "-o", tmp_path / "p.html", "--quiet")
    command = f"kdcode compress {words} {tmp_path / 'a.kdc'} "
    [told] = [one for one in (tmp_path / "p.html").read_text(encoding="utf-8").splitlines() if command in one]
    flags = told.partition(command)[2].partition("<")[0]
    assert sorted(flags.split()) == sorted(line.split())
    assert run("compress", words, tmp_path / "b.kdc", *flags.split(), "--quiet").exit_code == 0
    assert (tmp_path / "b.kdc").read_bytes() == (tmp_path / "a.kdc").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        3,
        {},
        {"seed": "x; rm -rf"},
        {"codebook_size": [1]},
        {"codebook_size": 1e300},
        {"composition": None},
        {"composition": "transform"},
        {"learner": "none"},
        {"learner": {"name": "additive"}},
        {"effort": "</code>", "unknown": 1},
        {"rotation": "yes"},
    ],
)
def test_a_record_that_makes_no_sense_is_no_command(run, made, coded, options):
    coded.provenance["options"] = options
    kdcode.save(coded, made / "a.kdc")
    result = run("report", made / "o.parquet", made / "a.kdc", "-o", made / "p.html", "--quiet")
    assert result.exit_code == 0, result.stderr
    if options:
        assert "kdcode compress" not in (made / "p.html").read_text(encoding="utf-8")


def test_weights_by_rank(run, made, kdc):
    result = run("report", made / "o.parquet", kdc, "--weights", "rank", "-o", made / "p.html", "--quiet", "--json")
    found = json.loads(result.stdout)
    expected = kdcode.evaluate(made / "o.parquet", kdc, "rank").weighted
    assert found["weighted"]["relative_error"] == pytest.approx(expected.relative_error)


def test_refusals(run, made, kdc):
    for line in (["o.parquet", "none.kdc"], ["none.txt", "small.kdc"], ["o.parquet", "small.kdc", "--rows", "0"]):
        assert run("report", *(made / word if "." in word else word for word in line)).exit_code == 2
    other = kdcode.VectorTable(["x"], np.ones((1, 3), dtype=np.float32))
    kdcode.write(other, made / "other.parquet")
    refused = run("report", made / "other.parquet", kdc, "-o", made / "p.html", "--quiet")
    assert refused.exit_code == 1
    assert "same dimension" in refused.stderr
    assert not (made / "p.html").exists()
