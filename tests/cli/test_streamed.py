"""`compress` of tables in parts, and `learn-codebook`, as a user runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kdcode

ROWS, DIM = 3000, 16
CODE = ("-K", 16, "-D", 4, "--effort", "fast")


@pytest.fixture
def parts(tmp_path):
    """A folder of Parquet parts with symbols."""
    draw = np.random.default_rng(0)
    vectors = (draw.normal(size=(30, DIM))[draw.integers(30, size=ROWS)] + 0.3 * draw.normal(size=(ROWS, DIM))).tolist()
    (tmp_path / "parts").mkdir()
    for number, start in enumerate(range(0, ROWS, 1000)):
        names = [f"w{row}" for row in range(start, start + 1000)]
        columns = {"name": names, "vector": pa.array(vectors[start : start + 1000], pa.list_(pa.float32()))}
        pq.write_table(pa.table(columns), tmp_path / "parts" / f"part-{number}.parquet")
    return tmp_path / "parts"


def test_a_sample_is_learned_from_and_all_rows_are_encoded(run, tmp_path, parts):
    done = run("compress", f"{parts}/*.parquet", tmp_path / "a.kdc", *CODE, "--sample", 500, "--memory", "2GB")
    assert done.exit_code == 0, done.output
    assert "3,000 x 16: learning from 500 rows, and encoding all of them a piece at a time; at most" in done.stderr
    assert "500 of 3,000 rows" in done.stdout
    assert "kdcode neighbors" in done.stdout
    assert len(kdcode.load(tmp_path / "a.kdc")) == ROWS
    assert kdcode.load(tmp_path / "a.kdc").symbols[2999] == "w2999"


def test_what_is_promised_is_kept_and_told_as_json(run, tmp_path, parts):
    flags = ("--sample", 1000, "--memory", "2GB", "--json", "--quiet")
    result = json.loads(run("compress", parts, tmp_path / "a.kdc", "--size", "10x", "--effort", "fast", *flags).stdout)
    assert result["sample"] == 1000
    assert result["ratio_embedding"] >= 10
    assert result["memory"] <= 2e9
    assert 0 < result["relative_error"] < 1
    assert result["file"] == str(tmp_path / "a.kdc")


def test_parts_that_fit_into_memory_are_learned_from_as_a_whole(run, tmp_path, parts):
    result = json.loads(run("compress", parts, tmp_path / "a.kdc", *CODE, "--json", "--quiet").stdout)
    assert "sample" not in result
    assert result["recall_at_10"] > 0  # which only learning from all rows measures


def test_plan_takes_parts_too(run, parts):
    done = run("plan", f"{parts}/*.parquet", "--size", "10x", "--effort", "fast", "--quiet", "--json")
    assert json.loads(done.stdout)[0]["unseen_error"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--max-error", 0.2), "--max-error is for tables that are learned from as a whole"),
        (("--memory", "1MB", *CODE), "--memory: 1,000,000 bytes are too few for 16 dimensions"),
        (("--weights", "WEIGHTS", *CODE), "--weights is for tables that are learned from as a whole"),
        (("--format", "npy", *CODE), "--sample is for npy, safetensors, parquet files"),
    ],
)
def test_what_cannot_be_done_in_parts_is_refused(run, tmp_path, parts, flags, message):
    (tmp_path / "weights").write_text("w1 2\n")
    given = [tmp_path / "weights" if flag == "WEIGHTS" else flag for flag in flags]
    if "--format" in flags:
        (tmp_path / "a.txt").write_text("a 1 2\nb 3 4\n")
        parts, given = tmp_path / "a.txt", list(CODE)
    failed = run("compress", parts, tmp_path / "a.kdc", "--sample", 500, *given)
    assert failed.exit_code in (1, 2)
    assert message in failed.stderr
    assert not (tmp_path / "a.kdc").exists()


def test_an_interrupted_run_says_how_to_go_on_and_does(run, tmp_path, parts):
    command = [sys.executable, "-m", "kdcode", "compress", str(parts), str(tmp_path / "a.kdc")]
    command += ["--sample", "2500", "-K", "64", "-D", "8", "--effort", "best"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        checkpoint = tmp_path / "a.kdc.parts" / "codebook.checkpoint"
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130, said
    assert f"the same command goes on from {tmp_path / 'a.kdc.parts'}" in said
    assert not (tmp_path / "a.kdc").exists()
    other = run("compress", parts, tmp_path / "a.kdc", "--sample", 2500, *CODE)
    assert other.exit_code == 1
    assert "--fresh starts over" in other.stderr
    assert run("compress", parts, tmp_path / "a.kdc", "--sample", 2500, *CODE, "--fresh").exit_code == 0
    assert not (tmp_path / "a.kdc.parts").exists()


def test_a_codebook_is_learned_and_used(run, tmp_path, parts):
    made = run("learn-codebook", parts, tmp_path / "cb.kdc", "--bits", 24, "--effort", "fast", "--sample", 1500)
    assert made.exit_code == 0, made.output
    assert "error of unseen rows" in made.stdout
    assert f"kdcode encode {parts} codes --codebook {tmp_path / 'cb.kdc'}" in made.stdout
    codebook = kdcode.load(tmp_path / "cb.kdc")
    assert len(codebook) == 0
    assert codebook.spec.bits <= 24
    flags = ("--codebook", tmp_path / "cb.kdc")
    assert run("encode", parts, tmp_path / "codes", *flags, "--quiet").exit_code == 0
    assert run("assemble", tmp_path / "codes", tmp_path / "a.kdc", *flags, "--quiet").exit_code == 0
    table = kdcode.load(tmp_path / "a.kdc")
    assert len(table) == ROWS
    assert table.provenance["relative_error"] < 2 * codebook.provenance["unseen_error"]


def test_a_codebook_of_text_files_and_its_json(run, tmp_path):
    draw = np.random.default_rng(0)
    lines = (f"w{row} {' '.join(f'{number:.3f}' for number in draw.normal(size=4))}" for row in range(300))
    (tmp_path / "a.txt").write_text("\n".join(lines))
    flags = ("-K", 4, "-D", 2, "--effort", "fast", "--json", "--quiet")
    result = json.loads(run("learn-codebook", tmp_path / "a.txt", tmp_path / "cb.kdc", *flags, "--sample", 100).stdout)
    assert (result["sample"], result["unseen_rows"], result["codebook_size"]) == (100, 5, 4)
    assert result["file_bytes"] == Path(tmp_path / "cb.kdc").stat().st_size
    exists = run("learn-codebook", tmp_path / "a.txt", tmp_path / "cb.kdc", *flags)
    assert "--force" in exists.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--max-error", 0.2), "--max-error is for tables that are learned from as a whole"),
        (("--size", "20x", "-K", 16), "--codebook-size is chosen for --size"),
        (("--learner", "straight-through", *CODE[:4]), "--learner must be additive to learn a codebook"),
        (("--memory", "1MB", *CODE), "--memory: 1,000,000 bytes are too few"),
    ],
)
def test_a_codebook_that_cannot_be_learned_is_refused(run, tmp_path, parts, flags, message):
    failed = run("learn-codebook", parts, tmp_path / "cb.kdc", *flags)
    assert failed.exit_code in (1, 2)
    assert message in failed.stderr
    assert not (tmp_path / "cb.kdc").exists()
