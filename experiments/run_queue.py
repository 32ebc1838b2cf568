"""All runs of the paper's experiments, most valuable first, one at a time; those that have a result are skipped.

    python experiments/run_queue.py --data FOLDER --work FOLDER [--list] [--only ptb_perplexity-small]

A run is one row and one seed, or a script that takes minutes, and a process of its own. Its result is a file of
`results/`, and one that says where it is from (`provenance.py`) is not made again. Runs keep checkpoints in the work
folder, and what they print in `logs/` there; stopped at any time, the queue goes on where it was. FOLDER of `--data`
holds ptb/, glove-100d/ and tasks/. A run that fails is told and left out.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from learned_codes import ROWS as LEARNED_ROWS
from provenance import missing_keys
from table_1_rows import ROWS
from vary_k_d import POINTS

HERE = Path(__file__).parent
SEEDS = (0, 1, 2)
FIRST_ROWS = ("conventional", "algorithm-1-linear-linear", "linear-linear", "algorithm-1-lstm-lstm", "lstm-lstm")
LARGE_ROWS = ("conventional", "random-linear", "linear-linear", "lstm-linear")
LAST_LARGE_ROWS = ("linear-lstm", "lstm-lstm", "random-lstm", "linear-shared-lstm")
CHECKED_ROWS = ("conventional", "linear-linear")
"""Rows that are run in float32 too."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PTB, GLOVE, TASKS = "ptb", "glove-100d", "tasks"


class Job(NamedTuple):
    """One run.

    Args:
        result: its file, in `results/`, without the suffix.
        script: its file, without the suffix.
        data: the folder of `--data` that it reads; none where empty.
        words: other arguments.
        seed: its `--seed`.
        resumes: whether it takes `--work`.
        other_data: flags with folders of `--data`.
    """

    result: str
    script: str
    data: str = ""
    words: tuple[str, ...] = ()
    seed: int = 0
    resumes: bool = True
    other_data: tuple[tuple[str, str], ...] = ()

    def command(self, data: Path, work: Path) -> list[str]:
        """The command line that runs it."""
        line = [sys.executable, str(HERE / f"{self.script}.py"), "--seed", str(self.seed), *self.words]
        line += ["--data", str(data / self.data)] if self.data else []
        line += [word for flag, folder in self.other_data for word in (flag, str(data / folder))]
        return line + (["--work", str(work)] if self.resumes else [])

    @property
    def path(self) -> Path:
        """Its result file."""
        return HERE / "results" / f"{self.result}.json"

    @property
    def is_done(self) -> bool:
        """Whether there is a result that says where it is from."""
        return self.path.exists() and not missing_keys(json.loads(self.path.read_text(encoding="utf-8")))


def table_1(model: str, row: str, seed: int, *, precision: str = "bfloat16") -> Job:
    """A row of Table 1."""
    variant = model if precision == "bfloat16" else f"{model}-{precision}"
    words = ("--model", model, "--rows", row, "--precision", precision)
    return Job(f"runs/ptb_perplexity-{variant}/{row}-seed{seed}", "ptb_perplexity", PTB, words, seed)


def jobs() -> Iterator[Job]:
    """All runs, most valuable first."""
    others = [row for row in ROWS if row not in FIRST_ROWS]
    for seed in SEEDS:
        yield from (table_1("small", row, seed) for row in (*FIRST_ROWS, *others))
        if seed == 0:
            yield from (table_1("small", row, seed, precision="float32") for row in CHECKED_ROWS)
    yield from quick_jobs()
    yield from (table_1("large-shortened", row, 0) for row in LARGE_ROWS)
    for seed in SEEDS:
        for point in POINTS:
            yield Job(f"runs/vary_k_d/{point}-seed{seed}", "vary_k_d", PTB, ("--points", point), seed)
    yield from (Job(f"runs/learned_codes/{row}-seed0", "learned_codes", PTB, ("--rows", row)) for row in LEARNED_ROWS)
    yield Job("random_codes", "random_codes", PTB)
    yield Job("lightrnn", "lightrnn", PTB, other_data=(("--glove", GLOVE),))
    yield from (table_1("large-shortened", row, 0) for row in LAST_LARGE_ROWS)
    yield Job("recommendation", "recommendation", f"{TASKS}/ml-100k")
    yield Job("text_classification", "text_classification", TASKS, other_data=(("--glove", GLOVE),))
    yield Job("link_prediction", "link_prediction", f"{TASKS}/fb15k-237")


def quick_jobs() -> Iterator[Job]:
    """Scripts that take minutes."""
    yield Job("temperature", "temperature", resumes=False)
    yield Job("clustering", "clustering", resumes=False)
    yield Job("clustering_search", "clustering_search", resumes=False)
    yield Job("code_space", "code_space", resumes=False)
    yield Job("glove_codes", "glove_codes", GLOVE, resumes=False)
    yield Job("related", "related", GLOVE)


def run(job: Job, data: Path, work: Path) -> bool:
    """Run a job to its end; whether it left a result."""
    log = work / "logs" / f"{job.result.replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as output:
        environment = os.environ | dict.fromkeys(THREADS, "1")
        subprocess.run(
            job.command(data, work),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    return job.is_done


def say(text: str) -> None:
    """One line, with the time."""
    print(f"{time.strftime('%Y-%m-%d %H:%M')}  {text}", flush=True)


def main() -> None:
    """List the runs, or run those that have no result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, help="folder with ptb/, glove-100d/ and tasks/")
    parser.add_argument("--work", type=Path, default=HERE / "work", help="folder for checkpoints and logs")
    parser.add_argument("--list", action="store_true", help="say which runs have a result, and run none")
    parser.add_argument("--only", default="", help="only runs whose result has this in its name")
    arguments = parser.parse_args()
    wanted = [job for job in jobs() if arguments.only in job.result]
    if arguments.list:
        for job in wanted:
            print(f"{'done' if job.is_done else '    '}  {job.result}")
        return
    if arguments.data is None:
        parser.error("give --data, or --list")
    arguments.work.mkdir(parents=True, exist_ok=True)
    with (arguments.work / "queue.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            parser.error(f"another queue works in {arguments.work}")
        failed = [job.result for job in wanted if not (job.is_done or _told(job, arguments.data, arguments.work))]
    if failed:
        sys.exit(f"no result: {', '.join(failed)}")


def _told(job: Job, data: Path, work: Path) -> bool:
    say(f"begins  {job.result}")
    started = time.perf_counter()
    succeeded = run(job, data, work)
    say(f"{'ended' if succeeded else 'FAILED'}   {job.result}, {(time.perf_counter() - started) / 60:.1f} minutes")
    return succeeded


if __name__ == "__main__":
    main()
