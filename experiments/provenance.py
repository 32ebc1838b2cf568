"""Where a result comes from: commit, command, seed, threads and processor, under the same keys in every file."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
CODE = ("src", "experiments/*.py", "benchmarks/*.py", "pyproject.toml", "constraints.txt")
"""What a result may depend on."""
KEYS = ("commit", "seed", "command", "versions", "threads", "processor", "settings", "seconds")
"""What every result has."""
FLAGS_SHOWN = ("avx512_bf16", "amx_bf16")
"""Instructions of a processor that decide how quick products in bfloat16 are."""


def origin(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keys of `KEYS` that do not depend on what was measured."""
    return {
        "commit": commit(),
        "seed": arguments.seed,
        "command": command(sys.argv, vars(arguments)),
        "threads": torch.get_num_threads(),
        "processor": processor(),
    }


def commit() -> str:
    """The commit whose code runs here; one that is changed ends in -changed. "unknown" outside of a repository."""
    found = _git("rev-parse", "HEAD")
    if found is None:
        return "unknown"
    return f"{found}-changed" if _git("status", "--porcelain", "--untracked-files=no", "--", *CODE) else found


def command(words: list[str], values: dict[str, Any]) -> str:
    """A command line as it can be given elsewhere: folders are left open."""
    folders = {str(value) for value in values.values() if isinstance(value, Path)}
    shown = ["FOLDER" if word in folders else word for word in words[1:]]
    return " ".join(["python", f"experiments/{Path(words[0]).name}", *shown])


def processor() -> str:
    """The model of the processor, and which instructions for bfloat16 it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    return ", ".join([fields.get("model name", platform.machine()), *(flag for flag in FLAGS_SHOWN if flag in flags)])


def missing_keys(result: dict[str, Any]) -> list[str]:
    """What a result does not say of where it comes from, or what does not add up in it."""
    missing = [key for key in KEYS if result.get(key) is None]
    if str(result.get("commit", "")).endswith(("-changed", "unknown")):
        missing.append("commit (the code was changed)")
    parts = result.get("seconds_of")
    if parts is not None and abs(sum(parts.values()) - result["seconds"]) > 1:
        missing.append("seconds (its parts sum to something else)")
    return missing


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
