"""What the tests of ranks run in each of them: python rank_runs.py JOBS OUT, with the environment that torchrun sets.

JOBS is a JSON file: a list of runs, one after another, each with a name and the arguments of `run`. OUT is a folder for
what each rank found.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kdcode
from kdcode.errors import KdcodeError
from kdcode.learning import Checkpoint, Ranks, compress_shard, joined_ranks, read_shard
from kdcode.sources import RowSource, open_source
from kdcode.sources.source import Chunk


class CountingSource(RowSource):
    """A source that keeps which rows it was asked for."""

    def __init__(self, source: RowSource) -> None:
        super().__init__(source.name, len(source), source.embedding_dim, has_symbols=source.has_symbols)
        self.source, self.asked = source, []

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        self.asked.append((start, stop))
        return self.source._read(start, stop, rows)

    def fingerprint(self) -> str:
        return self.source.fingerprint()


def stopping(step: int | None) -> Callable[[Any], None]:
    """A callback that ends a run after a step, as Ctrl-C does."""

    def on_step(report: Any) -> None:
        if report.step == step:
            raise KeyboardInterrupt

    return on_step


def run(ranks: Ranks, out: Path, name: str, **job: Any) -> dict[str, Any]:
    """Compress a file on all ranks, save it, and tell what came of it."""
    source = CountingSource(open_source(job["source"]))
    found: dict[str, Any] = {}
    steps: list[int] = []
    try:
        shard = read_shard(source, ranks, job.get("weights"))
        checkpoint = Checkpoint(job["checkpoint"], 0) if "checkpoint" in job else None

        def on_step(report: Any) -> None:
            steps.append(report.step)
            stopping(job.get("stop"))(report)

        coded = compress_shard(shard, **job["options"], progress=on_step, checkpoint=checkpoint, threads=1)
    except KdcodeError as error:
        return {"error": f"{type(error).__name__}: {error}", "asked": source.asked}
    except KeyboardInterrupt:
        return {"stopped": True, "steps": steps}
    if coded is not None:
        found["bytes"] = kdcode.save(coded, out / f"{name}.kdc")
        found["provenance"] = coded.provenance
        found["symbols"] = list(coded.symbols[:5])
        np.save(out / f"{name}.codes.npy", coded.codes)
    return {**found, "asked": source.asked, "first": shard.share.first, "rows": shard.share.rows, "steps": steps}


def main() -> None:
    """Run all jobs as one of the ranks."""
    jobs, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    with joined_ranks() as ranks:
        found = {job["name"]: run(ranks, out, **job) for job in jobs}
        (out / f"{ranks.rank}.json").write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # see tests/nn/two_ranks.py


if __name__ == "__main__":
    main()
