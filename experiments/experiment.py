"""What every experiment shares: its arguments, its result file and its figures' folder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # one way to write results for both folders

from provenance import origin
from result_file import kept, write_result

__all__ = ["Experiment", "kept"]

HERE = Path(__file__).parent
PACKAGES = ("numpy", "torch")


class Experiment:
    """One script's run: `arguments` from its command line, and where its results and figures go.

    Args:
        script: the script's `__file__`.
        description: for `--help`.
        data: what `--data` holds, where the script needs any.
        resumes: whether the script keeps a work folder and goes on from what it finds there.
    """

    def __init__(self, script: str, description: str, data: str | None = None, *, resumes: bool = False) -> None:
        self.name = Path(script).stem
        self.parser = argparse.ArgumentParser(description=description.split("\n\n", maxsplit=1)[0])
        self.parser.add_argument("--seed", type=int, default=0, help="seed of everything random")
        self.parser.add_argument("--tiny", action="store_true", help="a run of seconds on little or made-up data")
        self.parser.add_argument("--output", type=Path, default=HERE, help="folder for results/ and figures/")
        self.needs_data = data is not None
        if data:
            self.parser.add_argument("--data", type=Path, help=data)
        if resumes:
            text = "folder that keeps checkpoints and what is finished; by default OUTPUT/work"
            self.parser.add_argument("--work", type=Path, help=text)
        self.started = time.perf_counter()

    def read_arguments(self) -> argparse.Namespace:
        """The command line; a script that needs data is refused without it, unless it runs tiny."""
        self.arguments = self.parser.parse_args()
        if self.needs_data and not self.arguments.tiny and self.arguments.data is None:
            self.parser.error("give --data, or --tiny for a quick trial without data")
        for folder in ("results", "figures"):
            (self.arguments.output / folder).mkdir(parents=True, exist_ok=True)
        return self.arguments

    @property
    def work(self) -> Path:
        """The folder of a script that resumes."""
        return Path(self.arguments.work or self.arguments.output / "work")

    def say(self, text: str) -> None:
        """One line of progress."""
        print(f"[{time.perf_counter() - self.started:6.0f} s] {text}", file=sys.stderr, flush=True)

    def figure_path(self, variant: str = "") -> Path:
        """Where a figure of this script goes."""
        return self.arguments.output / "figures" / f"{self._stem(variant)}.svg"

    def write(
        self,
        settings: dict[str, Any],
        rows: list[dict[str, Any]],
        variant: str = "",
        packages: Iterable[str] = PACKAGES,
        **more: Any,  # noqa: ANN401 - curves and other things beside the rows
    ) -> Path:
        """Write this script's result file; the time is that since the start, unless `seconds` is given."""
        path: Path = self.arguments.output / "results" / f"{self._stem(variant)}.json"
        self._write(path, settings, rows, packages, more)
        return path

    def run_path(self, row: str, variant: str = "") -> Path:
        """Where the result of one row and this seed goes."""
        folder: Path = self.arguments.output / "results" / "runs" / self._stem(variant)
        return folder / f"{row}-seed{self.arguments.seed}.json"

    def write_run(
        self,
        row: str,
        settings: dict[str, Any],
        record: dict[str, Any],
        seconds_of: dict[str, float],
        variant: str = "",
    ) -> Path:
        """Write the result of one row and seed; the time is the sum of `seconds_of`, which says what took how long."""
        path = self.run_path(row, variant)
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = {name: round(value, 1) for name, value in seconds_of.items()}
        more = {"seconds": sum(parts.values()), "seconds_of": parts}
        self._write(path, settings, [record], PACKAGES, more)
        return path

    def _write(
        self,
        path: Path,
        settings: dict[str, Any],
        rows: list[dict[str, Any]],
        packages: Iterable[str],
        more: dict[str, Any],
    ) -> None:
        seconds = round(more.pop("seconds", time.perf_counter() - self.started), 1)
        settings = {"seed": self.arguments.seed, "tiny": self.arguments.tiny, **settings}
        write_result(path, settings, rows, tuple(packages), **origin(self.arguments), seconds=seconds, **more)
        self.say(f"wrote {path}")

    def _stem(self, variant: str) -> str:
        return f"{self.name}-{variant}" if variant else self.name
