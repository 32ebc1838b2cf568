"""How long learning takes on a machine with other work: two runs at once, and one beside programs that are busy.

    python benchmarks/threads.py --glove FOLDER

Every run has a process of its own with as many threads as it takes by default. All runs of a case begin together, when
each has its table in memory. The time of a case is that of its slowest run, the best of several tries; "times alone"
compares it with a run that has the machine for itself. CPU seconds tell whether threads waste time by waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from result_file import write_result
from scaling import made_table

import kdcode
from kdcode.cpus import available_cpus
from kdcode.data import glove_50d

RESULTS = Path(__file__).parent / "results" / "threads.json"
SETTING = {"rows": 50_000, "dim": 100, "codebook_size": 256, "code_length": 8}
TINY = {"rows": 500, "dim": 20, "codebook_size": 16, "code_length": 4}
CASES = {"alone": (1, 0), "two at once": (2, 0), "beside two busy loops": (1, 2)}
"""How many runs there are in a case, and how many busy loops."""


def learn_when_told(setting: dict[str, int], glove: Path | None) -> None:
    """Make a table, say so, wait for a line, learn, and print how long it took."""
    real: np.ndarray[Any, Any] = np.load(glove / "vectors.npy", mmap_mode="r") if glove else glove_50d().matrix
    table = made_table(real, setting["rows"], setting["dim"])
    options = {name: setting[name] for name in ("codebook_size", "code_length")}
    kdcode.compress(table.head(200), codebook_size=4, code_length=2, effort="fast")  # everything is imported
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu = time.perf_counter(), time.process_time()
    coded = kdcode.compress(table, **options, codebook_dtype="int8", effort="fast")  # type: ignore[arg-type]
    record = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "relative_error": coded.provenance["relative_error"],
    }
    print(json.dumps(record))


def measure(runs: int, busy: int, flags: list[str]) -> dict[str, float]:
    """The slowest of several runs at once, beside so many busy loops."""
    own = [sys.executable, __file__, "--only", *flags]
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    with ExitStack() as stack:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": free}
        learning = [stack.enter_context(subprocess.Popen(own, **pipes)) for _ in range(runs)]
        for process in learning:
            stack.callback(process.kill)
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("a run did not begin")
        for _ in range(busy):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        for process in learning:
            if process.stdin is not None:
                process.stdin.write("go\n")
                process.stdin.flush()
        records: list[dict[str, float]] = [json.loads(process.communicate()[0]) for process in learning]
    return max(records, key=lambda record: record["seconds"])


def main() -> None:
    """Measure every case, print it and write it down."""
    parser = argparse.ArgumentParser(description="Learning beside other work.")
    parser.add_argument("--glove", type=Path, help="folder with vectors.npy; the embedded table where left out")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--tries", type=int, default=3, help="of every case")
    parser.add_argument("--tiny", action="store_true", help="a small table, once, for tests")
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    setting = TINY if arguments.tiny else SETTING
    if arguments.only:
        learn_when_told(setting, arguments.glove)
        return
    flags = [*(["--tiny"] if arguments.tiny else []), *(["--glove", str(arguments.glove)] if arguments.glove else [])]
    rows: list[dict[str, Any]] = []
    for case, (runs, busy) in CASES.items():
        tries = [measure(runs, busy, flags) for _ in range(1 if arguments.tiny else arguments.tries)]
        best = min(tries, key=lambda record: record["seconds"])
        alone = rows[0]["seconds"] if rows else best["seconds"]
        rows.append(
            {
                "case": case,
                "runs": runs,
                "busy_loops": busy,
                "seconds": round(best["seconds"], 3),
                "cpu_seconds": round(best["cpu_seconds"], 3),
                "times_alone": round(best["seconds"] / alone, 2),
                "relative_error": best["relative_error"],
            }
        )
        print(json.dumps(rows[-1]))
    settings = {"seed": 0, "effort": "fast", "cpus": available_cpus(), "tries": arguments.tries, **setting}
    write_result(arguments.output, settings, rows, ("numpy", "torch"))


if __name__ == "__main__":
    main()
