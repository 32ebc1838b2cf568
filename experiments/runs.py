"""Results of rows that were run with several seeds: means, standard deviations, and what is below the noise."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

RUNS = Path(__file__).parent / "results" / "runs"
Record = dict[str, Any]


class Spread(NamedTuple):
    """A mean over seeds.

    Args:
        mean: over all runs.
        deviation: standard deviation of a run; None for a single one.
        count: how many runs.
    """

    mean: float
    deviation: float | None
    count: int

    def shown(self, digits: int = 1) -> str:
        """The mean, and ± the standard deviation where there is one."""
        text = f"{self.mean:.{digits}f}"
        return text if self.deviation is None else f"{text} ± {self.deviation:.{digits}f}"


def runs_of(name: str) -> dict[str, list[Record]]:
    """The records of a script's runs by row, each in the order of seeds, with `run_seconds` of the whole run."""
    found: dict[str, list[Record]] = {}
    for path in sorted((RUNS / name).glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        (record,) = result["rows"]
        whole = {"seed": result["seed"], "run_seconds": result["seconds"]}
        found.setdefault(record["row"], []).append({**record, **whole})
    return found


def spread(records: list[Record], measure: str) -> Spread:
    """The mean of a measure."""
    values = [float(record[measure]) for record in records]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation, len(values))


def is_noise(first: Spread, second: Spread) -> bool | None:
    """Whether a difference of means is within two of its standard errors; None where no deviation is known."""
    known = [one.deviation for one in (first, second) if one.deviation is not None]
    if not known:
        return None
    squares = [(max(known) if one.deviation is None else one.deviation) ** 2 / one.count for one in (first, second)]
    return bool(abs(first.mean - second.mean) <= 2 * sum(squares) ** 0.5)
