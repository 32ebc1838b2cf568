"""Runs the cases of a fuzzer in processes of their own, counts what comes of them, and writes the counts down.

A fuzzer is a module with a function `check(case)` (see `Check` in case_worker.py) and ends with

    if __name__ == "__main__":
        raise SystemExit(harness.main("NAME", check, count=100_000))

which makes it a command: `python fuzz/NAME.py --count N --seed S`, and `--only NUMBER` for one case again.

A case fails if its check raises anything, if it takes more CPU time, clock time or memory than it may, or if its
process dies. The harness goes on with the next case in a new process. A run that is stopped goes on where it was when
it is started again; its counts are kept in fuzz/work/ until it is finished.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, TextIO

# Results are written as those of benchmarks are, and fuzzers use the sample files and the independent reader of tests.
sys.path += [str(Path(__file__).parent.parent / folder) for folder in ("benchmarks", "tests")]

from case_worker import (
    MIB,
    Case,
    CaseLimits,
    CaseResult,
    Check,
    WrongError,
    how_memory_is_measured,
    make_case,
    run_one,
    work,
)
from result_file import write_result

from kdcode.files import replacing

__all__ = ["MIB", "Case", "CaseLimits", "Check", "Tally", "WrongError", "main", "run_cases"]

HERE = Path(__file__).parent
RESULTS = HERE / "results"
WORK = HERE / "work"
KEPT_PER_KIND = 10
"""Failing cases that are kept of each kind, by number."""

SAVE_SECONDS = 20.0
_PROCESSES = multiprocessing.get_context("spawn")  # a fork of a process that has threads may never return


@dataclass
class Tally:
    """Counts of what came of cases.

    Attributes:
        outcomes: how many cases ended in each way that is no failure.
        failures: how many ended in each kind of failure.
        first: of each kind of failure, the first few cases, each with its number and detail.
        slowest: the number and CPU seconds of the case that took the longest.
        largest: the number and bytes of the case that took the most memory.
        below: every case below this number is done.
        beyond: the cases above it that are done too.
    """

    outcomes: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    slowest: tuple[int, float] = (-1, 0.0)
    largest: tuple[int, int] = (-1, 0)
    below: int = 0
    beyond: set[int] = field(default_factory=set)

    @property
    def done(self) -> int:
        """How many cases are counted."""
        return self.below + len(self.beyond)

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return sum(self.failures.values())

    def add(self, result: CaseResult) -> None:
        """Count one case."""
        counts = self.failures if result.failed else self.outcomes
        counts[result.kind] = counts.get(result.kind, 0) + 1
        if result.failed:
            kept = self.first.setdefault(result.kind, [])
            if len(kept) < KEPT_PER_KIND:
                kept.append({"case": result.number, "detail": result.detail})
        self.slowest = max(self.slowest, (result.number, result.seconds), key=lambda pair: pair[1])
        self.largest = max(self.largest, (result.number, result.memory), key=lambda pair: pair[1])
        self.beyond.add(result.number)
        while self.below in self.beyond:
            self.beyond.remove(self.below)
            self.below += 1

    def save(self, path: Path) -> None:
        """Write the counts so that `load` gives them back."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({**asdict(self), "beyond": sorted(self.beyond)}), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Tally:
        """The counts of a run that was stopped, or none where there was no such run."""
        if not path.exists():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        kept |= {"beyond": set(kept["beyond"]), "slowest": tuple(kept["slowest"]), "largest": tuple(kept["largest"])}
        return cls(**kept)

    def todo(self, count: int) -> Iterator[int]:
        """The numbers below `count` that are not done."""
        return iter([number for number in range(self.below, count) if number not in self.beyond])


class _Worker:
    """A process that runs cases, with the case it is at and when that case must be done."""

    def __init__(self, check: Check, seed: int, folder: Path, limits: CaseLimits) -> None:
        folder.mkdir()
        self.limits = limits
        self.number: int | None = None
        self.deadline = float("inf")
        self.connection, theirs = _PROCESSES.Pipe()
        arguments = (theirs, check, seed, folder, limits)
        self.process = _PROCESSES.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def give(self, number: int | None) -> None:
        """Hand it the next case, or tell it that there is none."""
        self.number = number
        self.deadline = time.monotonic() + self.limits.wall_seconds if number is not None else float("inf")
        with suppress(BrokenPipeError):  # it has died, which is seen when its answer is read
            self.connection.send(number)

    def answer(self) -> CaseResult | None:
        """The result of its case; None where it says that it is ready. A process that has died failed its case."""
        try:
            result: CaseResult | None = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            if self.number is None:
                raise RuntimeError(f"a process of the fuzzer ended before its first case: {ended}") from None
            return CaseResult(self.number, "crash", f"the process ended: {ended}", failed=True)
        return result

    def overdue(self) -> CaseResult:
        """End the process, and count its case as one that hangs."""
        self.end()
        number = -1 if self.number is None else self.number
        detail = f"no answer within {self.limits.wall_seconds:g} s"
        return CaseResult(number, "hang", detail, failed=True, seconds=self.limits.wall_seconds)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class _Progress:
    """A line about the run: on a terminal it is written over itself, elsewhere it appears now and then."""

    def __init__(self, name: str, tally: Tally, count: int, stream: TextIO) -> None:
        self.name, self.count, self.stream = name, count, stream
        self.seconds = 1.0 if stream.isatty() else 30.0
        self.start, self.first, self.shown = time.monotonic(), tally.done, time.monotonic()

    def show(self, tally: Tally, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self.shown < self.seconds:
            return
        self.shown = now
        rate = (tally.done - self.first) / max(now - self.start, 1e-9)
        left = f", {(self.count - tally.done) / rate / 60:.0f} min left" if rate and not last else ""
        line = f"{self.name}: {tally.done:,} of {self.count:,} cases, {tally.failed:,} failed, {rate:.0f}/s{left}"
        on_terminal = self.stream.isatty()
        self.stream.write(f"\r{line}\x1b[K" if on_terminal else f"{line}\n")
        if last and on_terminal:
            self.stream.write("\n")
        self.stream.flush()


def run_cases(
    name: str,
    check: Check,
    *,
    count: int,
    seed: int = 0,
    processes: int | None = None,
    limits: CaseLimits | None = None,
    work_file: Path | None = None,
) -> Tally:
    """Run cases 0 to `count` and count what comes of them.

    Args:
        name: of the fuzzer, for the progress on standard error.
        check: tries one case; a function of a module.
        count: how many cases.
        seed: of all of them.
        processes: at once; as many as there are CPUs if None.
        limits: what a case may take.
        work_file: where counts are kept while the run goes on. If it is there, the run goes on from it; it is gone when
            all cases are done.
    """
    tally = Tally.load(work_file) if work_file else Tally()
    todo = tally.todo(count)
    progress = _Progress(name, tally, count, sys.stderr)
    limits = limits or CaseLimits()
    with TemporaryDirectory(prefix="kdcode-fuzz-", ignore_cleanup_errors=True) as base:
        folders = (Path(base, f"{number}") for number in range(10**9))
        wanted = min(processes or os.cpu_count() or 1, max(1, count - tally.done))
        workers = [_Worker(check, seed, next(folders), limits) for _ in range(wanted)]
        saved = time.monotonic()
        try:
            while workers:
                for worker, result in _answers(workers):
                    if result is not None:
                        tally.add(result)
                    if not worker.process.is_alive() and worker.number is not None:
                        workers[workers.index(worker)] = _Worker(check, seed, next(folders), limits)
                        continue
                    following = next(todo, None)
                    worker.give(following)
                    if following is None:
                        workers.remove(worker)
                        worker.process.join()
                progress.show(tally)
                if work_file and time.monotonic() - saved > SAVE_SECONDS:
                    tally.save(work_file)
                    saved = time.monotonic()
        finally:
            for worker in workers:
                worker.end()
            if work_file:
                tally.save(work_file)
    progress.show(tally, last=True)
    if work_file:
        work_file.unlink()
    return tally


def _answers(workers: list[_Worker]) -> list[tuple[_Worker, CaseResult | None]]:
    """What workers answer, waited for; a case that is over its time on the clock is answered for."""
    by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
    patience = min(1.0, max(0.0, min(worker.deadline for worker in workers) - time.monotonic()))
    ready = [by_connection[each] for each in connection.wait(list(by_connection), patience)]
    answers = [(worker, worker.answer()) for worker in ready]
    late = [each for each in workers if each not in ready and each.deadline < time.monotonic()]
    return answers + [(worker, worker.overdue()) for worker in late]


def write_results(path: Path, tally: Tally, seed: int, limits: CaseLimits, packages: tuple[str, ...]) -> None:
    """Write the counts as JSON, in the layout of all results of the project."""
    settings = {
        "count": tally.done,
        "seed": seed,
        "seconds": limits.seconds,
        "memory_mib": limits.memory // MIB,
        "memory_is": how_memory_is_measured(),
    }
    rows = [{"outcome": kind, "cases": cases, "failed": False} for kind, cases in sorted(tally.outcomes.items())]
    rows += [{"outcome": kind, "cases": cases, "failed": True} for kind, cases in sorted(tally.failures.items())]
    write_result(
        path,
        settings,
        rows,
        packages,
        failures=tally.first,
        slowest={"case": tally.slowest[0], "seconds": round(tally.slowest[1], 3)},
        largest={"case": tally.largest[0], "mib": round(tally.largest[1] / MIB, 1)},
    )


def main(
    name: str, check: Check, *, count: int, limits: CaseLimits | None = None, packages: tuple[str, ...] = ("numpy",)
) -> int:
    """The command of a fuzzer; returns its exit status: 1 where any case failed."""
    limits = limits or CaseLimits()
    parser = argparse.ArgumentParser(description=sys.modules[check.__module__].__doc__)
    parser.add_argument("--count", type=int, default=count, help="number of cases")
    parser.add_argument("--seed", type=int, default=0, help="of all cases")
    parser.add_argument("--processes", type=int, help="at once; as many as there are CPUs unless given")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this case alone, here, and keep its folder")
    parser.add_argument("--output", type=Path, default=RESULTS / f"{name}.json", help="where the counts are written")
    chosen = parser.parse_args()
    if chosen.only is not None:
        folder = Path(mkdtemp(prefix="kdcode-fuzz-"))
        result = run_one(check, make_case(chosen.seed, chosen.only, folder), limits)
        print(f"{result.kind}: {result.detail}" if result.failed else result.kind)
        print(f"{result.seconds:.3f} s, {result.memory / MIB:.1f} MiB, files in {folder}")
        return int(result.failed)
    try:
        tally = run_cases(
            name,
            check,
            count=chosen.count,
            seed=chosen.seed,
            processes=chosen.processes,
            limits=limits,
            work_file=WORK / f"{name}-{chosen.seed}.json",
        )
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    write_results(chosen.output, tally, chosen.seed, limits, packages)
    for kind, cases in {**tally.outcomes, **tally.failures}.items():
        print(f"{cases:>9,}  {kind}")
    for kind, kept in tally.first.items():
        for one in kept:
            print(f"{kind}: case {one['case']}: {one['detail']}")
    return int(tally.failed > 0)
