"""`torchrun -m kdcode compress`: real ranks, started as users start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kdcode
from kdcode.cli.torchrun import has_others, is_another_rank, own_device

SECONDS = 300
ENVIRONMENT = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}


def torchrun(size, *args):
    words = ["-m", "torch.distributed.run", "--nproc-per-node", size, "-m", "kdcode", "compress", *args]
    return [sys.executable, *map(str, words)]


def on_ranks(size, *args):
    return subprocess.run(
        torchrun(size, *args), env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=SECONDS
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table that takes seconds to compress, and one with a bad row among those of the second rank."""
    folder = tmp_path_factory.mktemp("tables")
    draw = np.random.default_rng(0)
    matrix = (draw.normal(size=(2000, 4)) @ draw.normal(size=(4, 16)) + draw.normal(size=(2000, 16))).astype(np.float32)
    np.save(folder / "table.npy", matrix)
    matrix[1900, 3] = np.inf
    np.save(folder / "bad.npy", matrix)
    return folder


@pytest.mark.slow
def test_two_ranks_compress_a_table_with_one_voice(folder, tmp_path):
    flags = ("--size", "12x", "--effort", "fast", "--seed", "2", "--json")
    done = on_ranks(2, folder / "table.npy", tmp_path / "out.kdc", *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # and nothing else: the other rank is silent
    assert done.stderr.count("; at most:") == 1
    alone = kdcode.compress(folder / "table.npy", "12x", effort="fast", seed=2)
    assert found["relative_error"] == pytest.approx(alone.provenance["relative_error"], rel=0.005)
    assert found["resumed_step"] == 0
    coded = kdcode.load(tmp_path / "out.kdc", check="full")
    assert coded.sizes.total == pytest.approx(alone.sizes.total, rel=0.005)  # each rank keeps to its share of the bytes
    assert coded.provenance["fingerprint"] == alone.provenance["fingerprint"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.kdc"]


@pytest.mark.slow
def test_a_bad_row_ends_all_ranks_with_one_message(folder, tmp_path):
    done = on_ranks(2, folder / "bad.npy", tmp_path / "out.kdc", "-K", "16", "-D", "4")
    assert done.returncode != 0
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "Error:"))]
    assert lines == [f"error: {folder / 'bad.npy'}: row 1900: has a value that is not a finite float32"]
    assert list(tmp_path.iterdir()) == []


def text_file(folder):
    kdcode.write(kdcode.as_table(np.ones((200, 4), dtype=np.float32)), folder / "text.txt")
    return "text.txt"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "flags", "message"),
    [
        (lambda _: "table.npy", ["-K", "x"], "Error: Invalid value for '-K' / '--codebook-size': 'x' is not a valid"),
        (text_file, [], "its rows cannot be read in parts; npy, safetensors, parquet files can"),
        (lambda _: "table.npy", ["--size", "9000x"], "too small for this table"),
        (lambda _: "table.npy", ["--format", "npy"], "leave --format out"),
        (lambda _: "table.npy", ["--sample", "500"], "--sample and --memory are for one process"),
    ],
)
def test_what_is_refused_is_said_once(source, flags, message, folder, tmp_path):
    done = on_ranks(2, folder / source(folder), tmp_path / "out.kdc", *flags)
    assert done.returncode != 0
    assert done.stderr.count(message) == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


def begun(size, target, *args):
    """Ranks that have begun to learn: their checkpoint is there, and some steps are behind them."""
    process = subprocess.Popen(
        torchrun(size, *args), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "learning: " in line or "loss" in line:
            return process, lines
    raise AssertionError("".join(lines))


def pid_of_rank(process, rank):
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    for pid in map(int, children.stdout.split()):
        if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"no rank {rank}")


LONG = ("-K", "16", "-D", "8", "--effort", "best")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds ranks in /proc")
def test_signals_and_kills_leave_a_checkpoint_that_any_number_of_ranks_resumes(tmp_path):
    draw = np.random.default_rng(1)
    np.save(tmp_path / "t.npy", draw.normal(size=(20_000, 32)).astype(np.float32))
    target = tmp_path / "out.kdc"
    args = (tmp_path / "t.npy", target, *LONG)
    checkpoint = Path(f"{target}.checkpoint")

    process, _ = begun(2, target, *args)  # stopped by a signal
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=SECONDS)
    assert f"stopped by SIGTERM; the same command resumes from {checkpoint}" in errors
    assert len(list(tmp_path.glob("out.kdc.checkpoint.rows-*"))) == 2

    process, lines = begun(3, target, *args)  # killed
    os.kill(pid_of_rank(process, 1), signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS)  # far below the time that a rank which hangs is waited for
    assert any("resuming from step" in line for line in lines)
    assert errors.count("error: another rank has ended, or cannot be reached") == 1
    assert f"the same command resumes from {checkpoint}" in errors
    assert not target.exists()
    assert process.returncode != 0
    assert checkpoint.exists()

    done = on_ranks(2, *args, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed_step"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.kdc", "t.npy"]


def test_a_process_knows_what_torchrun_has_told_it(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert not has_others()
    assert not is_another_rank()
    assert own_device("cuda") == "cuda"
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not has_others()
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert has_others()
    assert is_another_rank()
    assert [own_device(name) for name in ("cuda", "cuda:3", "cpu")] == ["cuda:1", "cuda:3", "cpu"]
    monkeypatch.setenv("RANK", "0")
    assert not is_another_rank()
