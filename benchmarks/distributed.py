"""Large tables: codebooks learned from a sample, rows encoded on threads and on Ray, and learning on several ranks.

    python benchmarks/distributed.py --work FOLDER

Tables are made, not real: rows lie around 4,096 centres, and both the centres and what rows differ from them by have
spectra that fall like 1/n. Every command is run as a user would run it, in processes of its own; its time has
everything in it, from starting Python to the last file on disk. `largest_mb` is the most resident memory of any one
process, `total_mb` the most of all together, with shared pages counted once. `efficiency` is the speed of two workers
over twice that of one.

    ranks            `compress` on 1 and 2 ranks of torchrun, all rows in memory, for the smallest table
    encode, sums     the same table by sums of codewords (linear codes) of 128 bits, with 2 threads
    learn-codebook   from a sample of the rows, all of which are read, for the largest table
    encode           the same by the local engine with 1 and 2 threads, and by Ray with 1 and 2 workers, to 128 bits
    assemble         the codes to one .kdc file
    compress         all of it in one command, which may use no more memory than it is told, for every number of rows

Finished measurements are kept in the work folder, so a run that is stopped goes on. It takes about an hour,
and 10 GB of disk for the largest table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from result_file import measured_rows, write_result
from watched_process import Watched, watched

RESULTS = Path(__file__).parent / "results" / "distributed.json"
DIM, CENTRES, BITS = 128, 4096, 128
Record = dict[str, Any]
Row = tuple[Path, Callable[[], Record]]


def write_table(path: Path, rows: int, dim: int) -> None:
    """A .npy file of clustered rows, written a piece at a time."""
    if path.exists():
        return
    draw = np.random.default_rng(rows)
    spectrum = (1 / np.sqrt(np.arange(1, dim + 1))).astype(np.float32)
    turn = np.linalg.qr(draw.normal(size=(dim, dim)))[0].astype(np.float32)
    centres = (draw.normal(size=(CENTRES, dim)).astype(np.float32) * spectrum) @ turn
    temporary = path.with_suffix(".partial")
    with temporary.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)})
        for start in range(0, rows, 1 << 16):
            count = min(1 << 16, rows - start)
            noise = (draw.standard_normal(size=(count, dim), dtype=np.float32) * (0.7 * spectrum)) @ turn
            stream.write((centres[draw.integers(CENTRES, size=count)] + noise).astype("<f4").tobytes())
    temporary.rename(path)


class Measurements:
    """All commands for a table of so many rows, in a folder."""

    def __init__(self, folder: Path, rows: int, dim: int, sample: int) -> None:
        self.folder, self.rows, self.sample, self.dim = folder / f"{rows}", rows, sample, dim
        self.table, self.codebook = self.folder / "table.npy", self.folder / "codebook.kdc"

    def _record(self, command: str, found: Watched, workers: int, **more: object) -> Record:
        speed = {"seconds": found.seconds, "rows_per_second": self.rows / found.seconds}
        memory = {"largest_mb": found.largest_mb, "total_mb": found.total_mb}
        return {"command": command, "rows": self.rows, "dim": self.dim, "workers": workers, **speed, **memory, **more}

    def _kdcode(self, *arguments: object, before: tuple[str, ...] = (sys.executable, "-m")) -> Watched:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(self.table, self.rows, self.dim)
        return watched([*before, "kdcode", *map(str, arguments), "--json", "--quiet"])

    def learn_codebook(self) -> Record:
        """From a sample."""
        self.codebook.unlink(missing_ok=True)
        flags = ("--bits", BITS, "--effort", "fast", "--sample", self.sample)
        found = self._kdcode("learn-codebook", self.table, self.codebook, *flags)
        result = json.loads(found.output)
        error = result["unseen_error"]
        return self._record("learn-codebook", found, 2, sample=self.sample, unseen_error=error)

    def encode(self, engine: str, workers: int) -> Record:
        """All rows, by one of the engines."""
        folder = self.folder / f"codes-{engine}-{workers}"
        shutil.rmtree(folder, ignore_errors=True)
        number = "--threads" if engine == "local" else "--workers"
        flags = ("--codebook", self.codebook, "--engine", engine, number, workers)
        return self._record(f"encode, {engine}", self._kdcode("encode", self.table, folder, *flags), workers)

    def assemble(self) -> Record:
        """The parts to one file."""
        target = self.folder / "assembled.kdc"
        flags = ("--codebook", self.codebook, "--force")
        found = self._kdcode("assemble", self.folder / "codes-local-2", target, *flags)
        return self._record("assemble", found, 1, file_mb=target.stat().st_size / 2**20)

    def compress(self, memory: str) -> Record:
        """Everything at once."""
        target = self.folder / "compressed.kdc"
        flags = ("--bits", BITS, "--effort", "fast", "--memory", memory, "--sample", self.sample, "--force")
        found = self._kdcode("compress", self.table, target, *flags)
        error = json.loads(found.output)["relative_error"]
        return self._record("compress", found, 2, memory=memory, relative_error=error)

    def ranks(self, ranks: int) -> Record:
        """Learning from all rows, shared by ranks."""
        target = self.folder / f"ranks-{ranks}.kdc"
        flags = ("-K", 256, "-D", BITS // 8, "--composition", "product", "--effort", "fast", "--threads", 1, "--force")
        launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "-m")
        found = self._kdcode("compress", self.table, target, *flags, before=launcher)
        error = json.loads(found.output)["relative_error"]
        return self._record("ranks", found, ranks, relative_error=error)

    def compressed(self, memory: str) -> Row:
        """Everything at once, with the file that keeps it."""
        return self.folder / "compress.json", lambda: self.compress(memory)

    def single_steps(self) -> Iterator[Row]:
        """Each command by itself, on one worker and on two, with the file that keeps it."""

        def kept(name: str) -> Path:
            return self.folder / f"{name}.json"

        yield kept("learn-codebook"), self.learn_codebook
        for engine, workers in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2)):
            yield (
                kept(f"encode-{engine}-{workers}"),
                lambda engine=engine, workers=workers: self.encode(engine, workers),
            )
        yield kept("assemble"), self.assemble

    def encode_sums(self) -> Record:
        """All rows by sums of codewords, which are nearer to them and slower to find than what a fast plan takes."""
        codebook, folder = self.folder / "sums.kdc", self.folder / "codes-sums"
        shape = ("-K", 256, "-D", BITS // 8, "--composition", "linear", "--effort", "fast", "--force")
        self._kdcode("learn-codebook", self.table, codebook, *shape, "--sample", self.sample // 4)
        shutil.rmtree(folder, ignore_errors=True)
        found = self._kdcode("encode", self.table, folder, "--codebook", codebook, "--threads", 2)
        return self._record("encode, sums", found, 2)

    def slow_steps(self) -> Iterator[Row]:
        """Learning on one rank and on two, and encoding by sums, each with the file that keeps it."""
        for count in (1, 2):
            yield self.folder / f"ranks-{count}.json", lambda count=count: self.ranks(count)
        yield self.folder / "encode-sums.json", self.encode_sums


def with_efficiency(rows: list[Record]) -> list[Record]:
    """Records of two workers with their speed over twice that of one."""
    speeds = {(row["command"], row["rows"], row["workers"]): row["rows_per_second"] for row in rows}
    for row in rows:
        alone = speeds.get((row["command"], row["rows"], 1))
        if row["workers"] > 1 and alone:
            row["efficiency"] = round(row["rows_per_second"] / (row["workers"] * alone), 3)
    return rows


def main() -> None:
    """Measure what is not kept yet, print it and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for tables and finished measurements")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after this time")
    parser.add_argument("--tiny", action="store_true", help="small tables, to see that it works")
    arguments = parser.parse_args()
    counts, sample, dim = ((3000,), 1500, 32) if arguments.tiny else ((1_000_000, 4_000_000, 10_000_000), 262_144, DIM)
    tables = [Measurements(arguments.work, rows, dim, sample) for rows in counts]
    steps = [*tables[0].slow_steps(), *tables[-1].single_steps()]
    planned = [*steps, *(table.compressed("4GB") for table in tables)]
    found = with_efficiency(measured_rows(planned, arguments.minutes))
    settings = {"bits": BITS, "sample": sample, "centres": CENTRES, "effort": "fast", "seed": 0, "memory": "4GB"}
    write_result(arguments.output, settings, found, ("numpy", "torch", "ray"))


if __name__ == "__main__":
    main()
