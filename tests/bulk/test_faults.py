"""Real runs of the command that are interrupted or killed, whose disk is full or a part damaged; and how they go on."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from kdcode import assemble, encode_parts, load
from kdcode.bulk import EncodeSettings

from .conftest import DIM, files, make_parts, vectors_of, write_part

MANY = 1000
FEW_AT_A_TIME = ("--rows-per-slice", "10", "--beam", "2", "--sweeps", "1")
FEW_SETTINGS = EncodeSettings(beam=2, sweeps=1, rows_per_slice=10)


def words(*args):
    return [sys.executable, "-m", "kdcode", *map(str, args)]


def run(*args):
    return subprocess.run(words(*args), capture_output=True, text=True, check=False)


def codes(folder):
    return sorted(path.name for path in folder.glob("codes-*.parquet"))


def wait_for_codes(folder, process, at_least=3):
    """Until some slices are written, or the process has ended."""
    while process.poll() is None and len(codes(folder)) < at_least:
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


@pytest.fixture
def many(tmp_path):
    """A part of many slices, so that a run takes long enough to be met in the middle."""
    write_part(tmp_path / "many.parquet", vectors_of(0, MANY), [f"w{row}" for row in range(MANY)])
    return tmp_path / "many.parquet"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_its_slices_says_so_and_goes_on(number, code, many, codebook, tmp_path):
    out = tmp_path / "out"
    line = ("encode", many, out, "--codebook", codebook, *FEW_AT_A_TIME, "--threads", "1")
    process = subprocess.Popen(words(*line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_codes(out, process)
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert process.returncode == code, stderr
    assert stdout == ""
    kept = codes(out)
    assert 3 <= len(kept) < MANY // 10
    told = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert f"{told}; {len(kept)} of 100 slices are written, and the same command goes on with the others" in stderr
    assert "Traceback" not in stderr
    assert {path.name for path in out.iterdir()} == {*kept, "manifest.json"}  # no half file, whatever it is called
    before = {name: (out / name).stat().st_mtime_ns for name in kept}

    done = run(*line, "--json")
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} slices with {10 * len(kept)} rows are there already" in done.stderr
    assert json.loads(done.stdout)["encoded_slices"] == 100 - len(kept)
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == before
    encode_parts([str(many)], tmp_path / "whole", codebook, settings=FEW_SETTINGS)
    assert files(out) == files(tmp_path / "whole")


def test_a_killed_run_goes_on(many, codebook, tmp_path):
    out = tmp_path / "out"
    line = ("encode", many, out, "--codebook", codebook, *FEW_AT_A_TIME, "--quiet")
    process = subprocess.Popen(words(*line))
    wait_for_codes(out, process)
    process.kill()
    process.wait()
    encode_parts([str(many)], out, codebook, settings=FEW_SETTINGS)
    assert {path.name for path in out.iterdir()} == {*codes(out), "manifest.json"}
    assemble(out, tmp_path / "t.kdc", codebook)
    assert list(load(tmp_path / "t.kdc", check="full")) == [f"w{row}" for row in range(MANY)]


@pytest.mark.slow
def test_a_full_disk_keeps_what_is_written_and_says_how_to_go_on(many, codebook, small_disk):
    out = small_disk / "out"
    line = ("encode", many, out, "--codebook", codebook, "--rows-per-slice", "100", "--beam", "1", "--sweeps", "0")
    done = run(*line)
    assert done.returncode == 1
    kept = codes(out)
    assert 0 < len(kept) < 10
    assert f"{out / f'codes-{len(kept):07d}.parquet'}: cannot be written: No space left on device" in done.stderr
    assert f"{len(kept)} of 10 slices are written, and the same command goes on with the others" in done.stderr
    assert {path.name for path in out.iterdir()} == {*kept, "manifest.json"}
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    assert run(*line, "--json").returncode == 0
    assert len(codes(out)) == 10


def test_a_damaged_part_is_named_and_the_others_are_kept(codebook, tmp_path):
    make_parts(tmp_path / "parts")
    damaged = tmp_path / "parts" / "p1.parquet"
    content = bytearray(damaged.read_bytes())
    content[300:900] = os.urandom(600)
    damaged.write_bytes(content)
    line = ("encode", tmp_path / "parts", tmp_path / "out", "--codebook", codebook, "--rows-per-slice", "40")
    done = run(*line)
    assert done.returncode == 1
    assert f"error: {damaged}: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(codes(tmp_path / "out")) <= 2  # those of the part before, where it opens at all


def test_a_row_that_is_not_finite_is_named(codebook, tmp_path):
    matrix = vectors_of(0, 50)
    matrix[33, 2] = np.nan
    np.save(tmp_path / "m.npy", matrix)
    done = run("encode", tmp_path / "m.npy", tmp_path / "out", "--codebook", codebook, "--rows-per-slice", "20")
    assert done.returncode == 1
    assert "m.npy: row 33: has a value that is not a finite float32" in done.stderr
    assert len(codes(tmp_path / "out")) == 1


def test_an_interrupted_append_leaves_the_table(codebook, tmp_path):
    np.save(tmp_path / "a.npy", vectors_of(0, 60_000))
    before = codebook.read_bytes()
    process = subprocess.Popen(
        words("append", codebook, tmp_path / "a.npy", "--threads", "1", "--beam", "64"),
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(tmp_path.glob(".kdcode-*.tmp")):
        time.sleep(0.005)
    time.sleep(0.1)  # so that it is at work in there
    process.send_signal(signal.SIGINT)
    assert "interrupted" in process.communicate()[1]
    assert process.returncode == 130
    assert codebook.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "cb.kdc"]
    assert load(codebook).embedding_dim == DIM
