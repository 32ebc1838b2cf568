"""`kdcode compare`: several copies of a table in one table and one figure."""

import json
import sys

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d


@pytest.fixture
def files(tmp_path):
    """A table and two copies of it, rounded to float16 and to integers."""
    table = glove_50d().head(300)
    kdcode.write(table, tmp_path / "words.parquet")
    np.save(tmp_path / "half.npy", np.asarray(table.matrix, dtype=np.float16))
    np.save(tmp_path / "whole.npy", np.rint(table.matrix).astype(np.int8))
    return [tmp_path / name for name in ("words.parquet", "half.npy", "whole.npy")]


def test_one_line_for_each_copy_the_largest_first(run, files):
    original, half, whole = files
    result = run("compare", original, whole, half, "--baselines", "int8,int4")
    assert result.exit_code == 0, result.stderr
    found = kdcode.compare(original, {"whole": whole, "half": half}, ["int8", "int4"])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["bytes", "smaller", "error", "limit", "cosine", "recall@10"]
    assert lines[1][:3] == ["original", "60,000", "1.0x"]
    assert lines[2][:3] == [str(half), "30,000", "2.0x"]
    assert sorted(line[0] for line in lines[3:]) == sorted([str(whole), "int8", "int8", "int4", "int4"])
    error = {one.name: one.lost.relative_error for one in found.contenders[:2]}
    assert next(line for line in lines if line[0] == str(whole))[3] == f"{error['whole']:.4f}"


def test_json(run, files):
    original, half, _ = files
    told = json.loads(run("compare", original, half, "--baselines", "int8", "--json", "--quiet").stdout)
    found = kdcode.compare(original, {str(half): half}, ["int8"])
    assert told == {"original": str(original), **json.loads(json.dumps(found.as_dict())), "figure": None}


def test_a_kdc_file_and_pq(run, kdc, coded, tmp_path):
    pytest.importorskip("torch")
    kdcode.write(coded.to_table(), tmp_path / "original.parquet")
    result = run("compare", tmp_path / "original.parquet", kdc, "--baselines", " pq , int8")
    assert result.exit_code == 0, result.stderr
    assert str(kdc) in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]].count("int8") == 1


def test_the_figure_is_written_and_kept(run, files, tmp_path):
    pytest.importorskip("matplotlib")
    original, half, _ = files
    figure = tmp_path / "sizes.svg"
    result = run("compare", original, half, "--figure", figure)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"the figure is in {figure}"
    assert figure.read_text().startswith("<?xml")
    figure.write_text("mine")
    assert run("compare", original, half, "--figure", figure).exit_code == 1
    assert figure.read_text() == "mine"
    assert run("compare", original, half, "--figure", figure, "--force").exit_code == 0
    assert run("compare", original, half, "--figure", half, "--force").exit_code == 1


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--baselines", "int8,int5"], 2, "--baselines must be among int8, int4, pq, got 'int5'"),
        (["--figure", "sizes.txt"], 1, "a figure is drawn as .svg, .png, .pdf"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(run, tmp_path, flags, code, message):
    (tmp_path / "no table").write_text("")
    result = run("compare", tmp_path / "no table", tmp_path / "no table", *flags)
    assert result.exit_code == code
    assert message in result.stderr


def test_without_matplotlib_the_error_says_what_to_install(run, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("compare", *files, "--figure", "sizes.svg")
    assert result.exit_code == 1
    assert "matplotlib is required for figures and is not installed: pip install 'matplotlib>=3.8'" in result.stderr


def test_symbols_that_are_missing_are_counted(run, files, tmp_path):
    kdcode.write(kdcode.read(files[0]).select(slice(7, None)), tmp_path / "short.parquet")
    assert "7 symbols are missing" in run("compare", files[0], tmp_path / "short.parquet").stdout
