"""A measurement in a process of its own, so that memory and threads are its own too; done once and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_LIBRARIES = ("OMP", "MKL", "OPENBLAS")


def measured_apart(
    script: str, arguments: list[str], kept: Path, threads: int, minutes: float | None = None, isa: str = ""
) -> dict[str, Any]:
    """The record that a script prints as JSON, or `{"unfinished_minutes": …}` where it took longer than it may.

    Args:
        script: the file to run, usually the caller's own.
        arguments: of the script.
        kept: where the record is written; if it is there, nothing is run.
        threads: of every library that has any.
        minutes: how long it may take; any time if None.
        isa: the instruction set that kdcode runs with; the best that the processor has if empty.
    """
    if not kept.exists():
        print(f"{kept.stem} …", file=sys.stderr, flush=True)
        limits = {f"{library}_NUM_THREADS": str(threads) for library in _LIBRARIES} | {"KDCODE_ISA": isa}
        command = [sys.executable, script, *arguments]
        try:
            printed = subprocess.run(
                command,
                check=True,
                stdout=subprocess.PIPE,
                env={**os.environ, **limits},
                timeout=None if minutes is None else 60 * minutes,
            ).stdout
        except subprocess.TimeoutExpired:
            printed = json.dumps({"unfinished_minutes": minutes}).encode()
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(printed)
    record: dict[str, Any] = json.loads(kept.read_text())
    return record
