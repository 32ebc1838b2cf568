"""Ranks as real processes, started as torchrun starts them: each runs rank_runs.py with a list of jobs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "rank_runs.py"
SECONDS = 300
"""After which ranks are taken to hang."""


def start_ranks(size: int, jobs: list[dict[str, Any]], out: Path) -> list[subprocess.Popen[str]]:
    """Start so many ranks with jobs."""
    out.mkdir(exist_ok=True)
    (out / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    with socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]
    meeting = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, str(SCRIPT), str(out / "jobs.json"), str(out)]
    return [
        subprocess.Popen(
            command,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", **{key: str(value) for key, value in meeting.items()}}
            | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def run_ranks(size: int, jobs: list[dict[str, Any]], out: Path) -> list[dict[str, Any]]:
    """What each rank found, by the name of each job."""
    for process in start_ranks(size, jobs, out):
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
    return [json.loads((out / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(size)]
