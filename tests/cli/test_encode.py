"""encode, assemble and append as a user meets them: what is said, and what is refused."""

import json
import sys

import numpy as np
import pytest

import kdcode

pytest.importorskip("torch")
pytest.importorskip("pyarrow")


@pytest.fixture
def codebook(coded, tmp_path):
    kdcode.save(coded.codebook(), tmp_path / "cb.kdc")
    return tmp_path / "cb.kdc"


@pytest.fixture
def rows(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(25, 2)).astype(np.float32)
    np.save(tmp_path / "rows.npy", matrix)
    return tmp_path / "rows.npy"


def test_rows_go_to_codes_and_to_a_table(run, codebook, rows, tmp_path):
    done = run("encode", rows, tmp_path / "out", "--codebook", codebook, "--rows-per-slice", 10)
    assert done.exit_code == 0, done.output
    assert "25 rows in 3 slices; codes will take 25 B, with ids more" in done.stderr
    assert "25 rows in 3 slices" in done.stdout
    assert "assemble" in done.stdout
    again = run("encode", rows, tmp_path / "out", "--codebook", codebook, "--rows-per-slice", 10)
    assert "3 slices with 25 rows are there already" in again.stderr
    assert "3 slices were there already" in again.stdout
    table = tmp_path / "t.kdc"
    done = run("assemble", tmp_path / "out", table, "--codebook", codebook)
    assert done.exit_code == 0, done.output
    assert "25 x 2" in done.stdout
    assert "relative error" in done.stdout
    assert run("verify", table, rows).exit_code == 0


def test_results_as_json(run, codebook, rows, tmp_path):
    told = run("encode", rows, tmp_path / "out", "--codebook", codebook, "--json", "--quiet")
    assert told.stderr == ""
    found = json.loads(told.stdout)
    assert (found["rows"], found["slices"], found["encoded_slices"]) == (25, 1, 1)
    assert found["bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").glob("codes-*"))
    told = run("assemble", tmp_path / "out", tmp_path / "t.kdc", "--codebook", codebook, "--json", "--quiet")
    assert json.loads(told.stdout)["num_embeddings"] == 25
    told = run("append", tmp_path / "t.kdc", rows, "--json", "--quiet")
    found = json.loads(told.stdout)
    assert (found["rows_before"], found["rows_added"]) == (25, 25)
    assert found["file_bytes"] == (tmp_path / "t.kdc").stat().st_size


def test_refusals_name_flags(run, codebook, rows, tmp_path):
    run("encode", rows, tmp_path / "out", "--codebook", codebook, "--quiet")
    done = run("encode", rows, tmp_path / "out", "--codebook", codebook, "--rows-per-slice", 7)
    assert done.exit_code == 1
    assert "--rows-per-slice is 7, and was 262144; name another folder, or give --force to start over" in done.stderr
    assert run("encode", rows, tmp_path / "out", "--codebook", codebook, "--beam", 3, "--force").exit_code == 0
    done = run("encode", rows, tmp_path / "other", "--codebook", codebook, "--workers", 2)
    assert done.exit_code == 2
    assert "--workers is for --engine ray" in done.stderr
    done = run("encode", rows, tmp_path / "other", "--codebook", codebook, "--engine", "ray", "--threads", 2)
    assert "--threads is for --engine local" in done.stderr
    done = run("encode", rows, rows, tmp_path / "other", "--codebook", codebook, "--beam", 0)
    assert "--beam must be an integer of at least 1" in done.stderr
    assert not (tmp_path / "other").exists()


def test_targets_are_not_overwritten_unless_asked_for(run, codebook, rows, tmp_path):
    run("encode", rows, tmp_path / "out", "--codebook", codebook)
    for line in (
        ["assemble", tmp_path / "out", codebook, "--codebook", codebook, "--force"],
        ["append", codebook, rows, "--output", codebook, "--force"],
    ):
        assert "is the input itself" in run(*line).stderr
    (tmp_path / "there.kdc").write_text("old")
    for line in (
        ["assemble", tmp_path / "out", tmp_path / "there.kdc", "--codebook", codebook],
        ["append", codebook, rows, "--output", tmp_path / "there.kdc"],
    ):
        done = run(*line)
        assert "exists already, --force replaces it" in done.stderr
        assert (tmp_path / "there.kdc").read_text() == "old"
    for line in (
        ["assemble", tmp_path / "out", tmp_path / "there.kdc", "--codebook", codebook, "--force"],
        ["append", codebook, rows, "--output", tmp_path / "there.kdc", "--force"],
    ):
        assert run(*line).exit_code == 0
        assert len(kdcode.load(tmp_path / "there.kdc")) == 25


def test_append_says_how_well_the_codec_suits_the_new_rows(run, kdc, rows, tmp_path):
    np.save(tmp_path / "named.npy", np.ones((2, 2)))
    done = run("append", kdc, rows)
    assert done.exit_code == 1
    assert "have symbols and this file has none" in done.stderr
    (tmp_path / "names.txt").write_text("sunday\nsaturday\n")
    done = run("append", kdc, tmp_path / "named.npy", "--symbols", tmp_path / "names.txt")
    assert done.exit_code == 0, done.output
    assert "6 rows and 2 new ones" in done.stdout
    assert "error of the new rows" in done.stdout
    assert list(kdcode.load(kdc))[-2:] == ["sunday", "saturday"]


def test_without_ray_the_line_to_install_it_is_told(run, codebook, rows, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run("encode", rows, tmp_path / "out", "--codebook", codebook, "--engine", "ray")
    assert done.exit_code == 1
    assert "is required for encoding on Ray and is not installed: pip install 'ray[data]>=2.40'" in done.stderr
    assert not (tmp_path / "out").exists()
