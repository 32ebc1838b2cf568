"""Whether a training step takes longer with more symbols: layers that learn codes, with their ready optimiser.

    python benchmarks/step_cost.py

A step is forward, backward and update of a layer and a small classifier on it, for a batch of ids drawn uniformly,
fresh ones for every step. Layers of all sizes take turns, step by step, so that other work on the machine slows all of
them alike; times are medians over the steps, with the quartiles beside them. "Ratio" compares with the smallest table.
The same with a full table (`nn.Embedding` with sparse gradients and SparseAdam) shows what memory alone costs: a row of
a large table is seldom in a cache. The last layer has dense gradients, as any optimiser of torch would give it.

Writes benchmarks/results/step_cost.json and prints a table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from result_file import write_result
from torch import Tensor, nn

from kdcode.nn import KDEmbedding, make_optimizer

RESULTS = Path(__file__).parent / "results" / "step_cost.json"
SETTING = {"dim": 128, "codebook_size": 16, "code_length": 32, "batch": 1024, "steps": 60, "seed": 0}
COUNTS = (10_000, 100_000, 1_000_000)
DENSE_COUNTS = (10_000, 100_000)
"""A step with dense gradients of a million symbols would take seconds."""

Step = Callable[[Tensor], None]


def coded_step(count: int, assignment: str, setting: dict[str, int], *, sparse: bool) -> Step:
    """A step with codes that are learned."""
    shape = {name: setting[name] for name in ("codebook_size", "code_length")}
    layer = KDEmbedding(count, setting["dim"], **shape, composition="product", assignment=assignment)  # type: ignore[arg-type]
    model = nn.Sequential(layer, nn.Linear(setting["dim"], 64))
    return step_of(model, [make_optimizer(model) if sparse else torch.optim.Adam(model.parameters())])


def full_step(count: int, setting: dict[str, int]) -> Step:
    """A step with a full table."""
    table, head = nn.Embedding(count, setting["dim"], sparse=True), nn.Linear(setting["dim"], 64)
    optimizers = [torch.optim.SparseAdam(table.parameters()), torch.optim.Adam(head.parameters())]
    return step_of(nn.Sequential(table, head), optimizers)


def step_of(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> Step:
    """Forward, backward and update."""

    def step(ids: Tensor) -> None:
        nn.functional.cross_entropy(model(ids), ids % 64).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    return step


def timed(steps: dict[int, Step], setting: dict[str, int]) -> dict[int, list[float]]:
    """Milliseconds of every step by the number of symbols; sizes take turns. The first steps do not count."""
    draw = torch.Generator().manual_seed(setting["seed"])
    found: dict[int, list[float]] = {count: [] for count in steps}
    for number in range(setting["steps"] + 5):
        for count, step in steps.items():
            ids = torch.randint(count, (setting["batch"],), generator=draw)
            started = time.perf_counter()
            step(ids)
            if number >= 5:
                found[count].append(1000 * (time.perf_counter() - started))
    return found


def measured(layer: str, counts: tuple[int, ...], setting: dict[str, int]) -> list[dict[str, Any]]:
    """The rows of one layer."""
    torch.manual_seed(setting["seed"])
    make: dict[str, Callable[[int], Step]] = {
        "query": lambda count: coded_step(count, "query", setting, sparse=True),
        "free": lambda count: coded_step(count, "free", setting, sparse=True),
        "full table": lambda count: full_step(count, setting),
        "free, dense": lambda count: coded_step(count, "free", setting, sparse=False),
    }
    times = timed({count: make[layer](count) for count in counts}, setting)
    least = statistics.median(times[counts[0]])
    rows = []
    for count, found in times.items():
        low, median, high = statistics.quantiles(found, n=4)
        record = {
            "layer": layer,
            "symbols": count,
            "ms": median,
            "ms_low": low,
            "ms_high": high,
            "ratio": median / least,
        }
        rows.append({name: round(value, 3) if isinstance(value, float) else value for name, value in record.items()})
    return rows


def main() -> None:
    """Measure all layers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="a few steps of small tables, to see that it works")
    arguments = parser.parse_args()
    setting, counts, dense = SETTING, COUNTS, DENSE_COUNTS
    if arguments.tiny:
        setting, counts, dense = {**SETTING, "steps": 3, "batch": 64}, (200, 2000), (200, 2000)
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for layer in ("query", "free", "full table", "free, dense"):
        rows += measured(layer, dense if layer.endswith("dense") else counts, setting)
    print("| layer | symbols | ms per step | ratio |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row['layer']} | {row['symbols']:,} | {row['ms']:.1f} | {row['ratio']:.2f} |")
    write_result(arguments.output, {**setting, "threads": 1}, rows, ("torch",))


if __name__ == "__main__":
    main()
