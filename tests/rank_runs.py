"""What the tests of ranks run in each of them: python rank_runs.py JOBS OUT, with the environment that torchrun sets.

JOBS is a JSON file: a list of runs, one after another, each with a name and the arguments of `run`. OUT is a folder for
what each rank found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kdcode
from kdcode.errors import KdcodeError
from kdcode.io import Reader, ReadOptions, open_reader
from kdcode.io.reader import Chunk
from kdcode.learning import Checkpoint, Ranks, StepReport, compress_shard, joined_ranks, read_shard


class CountingSource(Reader):
    """A source that keeps which rows it was asked for."""

    def __init__(self, source: Reader) -> None:
        dim, named = source.embedding_dim, source.has_symbols
        super().__init__(source.places, len(source), dim, has_symbols=named, name=source.name)
        self.source: Reader = source
        self.asked: list[tuple[int, int]] = []

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        self.asked.append((start, stop))
        return self.source.chunks(start, stop, rows)

    def fingerprint(self) -> str:
        """That of the source."""
        return self.source.fingerprint()


def run(ranks: Ranks, out: Path, name: str, source: str, options: dict[str, Any], **job: Any) -> dict[str, Any]:
    """Compress a file on all ranks, save it, and tell what came of it.

    Args:
        ranks: all of them.
        out: where the coded table is saved.
        name: of the job.
        source: the file to compress.
        options: of compression.
        **job: `symbols` and `weights`, the files of these; `checkpoint`, and `every` how many seconds it is written;
            `stop`, the step after which Ctrl-C comes; `kill`, the rank that is killed at that step instead.
    """
    rows = CountingSource(open_reader(source, ReadOptions(symbols=job.get("symbols"))))
    pids, steps = ranks.collect(os.getpid()), []

    def on_step(report: StepReport) -> None:
        steps.append(report.step)
        if report.step == job.get("stop"):
            if "kill" in job:
                os.kill(pids[job["kill"]], signal.SIGKILL)
                return
            raise KeyboardInterrupt

    try:
        shard = read_shard(rows, ranks, job.get("weights"))
        checkpoint = Checkpoint(job["checkpoint"], job.get("every", 30)) if "checkpoint" in job else None
        coded = compress_shard(shard, **options, progress=on_step, checkpoint=checkpoint, threads=1)
    except KdcodeError as error:
        return {"error": f"{type(error).__name__}: {error}", "asked": rows.asked}
    except KeyboardInterrupt:
        return {"stopped": True, "steps": steps}
    found = {"asked": rows.asked, "first": shard.share.first, "rows": shard.share.rows, "steps": steps}
    if coded is None:
        return found
    np.save(out / f"{name}.npy", coded.codes)
    kdcode.save(coded, out / f"{name}.kdc")
    return {**found, "sizes": coded.sizes.as_dict(), "provenance": coded.provenance}


def main() -> None:
    """Run all jobs as one of the ranks."""
    jobs, out = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    found: dict[str, Any] = {}
    with joined_ranks() as ranks:
        for job in jobs:
            found[job["name"]] = run(ranks, out, **job)
            (out / f"{ranks.rank}.json").write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)  # see tests/nn/two_ranks.py


if __name__ == "__main__":
    main()
