"""Clustering as in the paper: codes with D = 1 and K = 100 for 10,000 points in 100 well separated clusters.

    python experiments/clustering.py

Squared loss, normalised mutual information of codes and clusters, and the share of codes that change, for the three
variants of section 3 of the paper and for warm starts, over several seeds, with k-means++ beside them. Every variant
is a plain loop over the library's own gradient estimator, assignment and codec module: one iteration is one update by
all points at once, and it is what t counts in T = T0 / (1 + decay · t). Differs from the paper: updates are by Adam.

The learning rates below were picked by `clustering_search.py`, on seeds that nothing is reported on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from clusters import closest_centres, clustered_points, mutual_information
from experiment import Experiment
from figure import COLORS, panels
from language_model import keep_freed_memory
from schedule import Schedule
from torch import Tensor

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import CodecModule, make_module
from kdcode.codec_torch.randomness import generator_for
from kdcode.learning.gradient.logits import first_logits
from kdcode.learning.linalg.kmeans import kmeans, nearest
from kdcode.learning.solution import Start
from kdcode.learning.starts import warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.nn import FreeAssignment
from kdcode.nn.estimators import ESTIMATORS

FALLING = Schedule(initial=1.0, decay=1.0)
"""The paper's T0 and decay rate."""
CONSTANT = Schedule(initial=1.0)
KMEANS = "k-means++"
LAST = 50
"""Iterations over which the share of changing codes is averaged at the end."""


@dataclass(frozen=True)
class Task:
    """The points, and how long and how fast to learn.

    Args:
        points: N.
        clusters: as many as there are codewords, K.
        dim: d.
        spread: of points around centres; centres have spread 1.
        iterations: updates, each by all points.
        logit_rate: learning rate of the logits.
        codeword_rate: learning rate of the codewords.
        seeds: how many runs of each variant.
    """

    points: int = 10_000
    clusters: int = 100
    dim: int = 10
    spread: float = 0.1
    iterations: int = 500
    logit_rate: float = 0.005
    codeword_rate: float = 0.2
    seeds: int = 5

    @property
    def spec(self) -> CodewordSpec:
        """K = clusters, D = 1."""
        return CodewordSpec.named("linear", self.dim, self.clusters, 1)

    def data(self, seed: int) -> tuple[Tensor, Tensor]:
        """(N, d) points and their (N,) clusters."""
        return clustered_points(self.points, self.clusters, self.dim, self.spread, seed)


@dataclass(frozen=True)
class Variant:
    """One way to learn.

    Args:
        name: in results and figure.
        estimator: a key of `ESTIMATORS`.
        temperature: over the iterations.
        start: random; warm, the library's warm start by residual k-means; greedy, k-means from greedy k-means++ seeds.
    """

    name: str
    estimator: str
    temperature: Schedule
    start: str = "random"


class Runs(NamedTuple):
    """The runs of one variant: flat records of their ends, and what was measured on the way."""

    rows: list[dict[str, Any]]
    curves: list[dict[str, np.ndarray]]


VARIANTS = (
    Variant("straight-through, schedule", "straight-through", FALLING),
    Variant("straight-through, constant T", "straight-through", CONSTANT),
    Variant("soft, schedule", "soft", FALLING),
    Variant("warm start, schedule", "straight-through", FALLING, "warm"),
    Variant("greedy warm start, schedule", "straight-through", FALLING, "greedy"),
)
TINY = Task(points=400, clusters=10, dim=5, iterations=30, seeds=2)


def learn(task: Task, variant: Variant, seed: int) -> dict[str, np.ndarray]:
    """Run one variant; what was measured before the first update and after each, arrays of iterations + 1.

    `loss` is the mean squared distance of points from what was composed for them, which learning minimises.
    `code_loss` is the same for the codes, that is for the codeword of the largest logit; the two differ for soft alone.
    """
    points, labels = task.data(seed)
    assignment, module = starting_parts(task, variant.start, points, seed)
    groups = [
        {"params": [assignment.rows.weight], "lr": task.logit_rate},
        {"params": [module.codebook], "lr": task.codeword_rate},
    ]
    optimizer = torch.optim.Adam(groups, fused=True)
    records = []
    before: Tensor | None = None
    for update in range(task.iterations + 1):
        temperature = variant.temperature.at(update)
        chosen = ESTIMATORS[variant.estimator](assignment.logits, module.codebook, temperature)
        loss = (module(chosen.words) - points).square().sum() / task.points
        optimizer.zero_grad()
        loss.backward()
        codes = chosen.codes[:, 0]
        with torch.no_grad():
            code_loss = (module.compose(chosen.codes) - points).square().sum() / task.points
        records.append(
            {
                "loss": float(loss.detach()),
                "code_loss": float(code_loss),
                "nmi": mutual_information(codes, labels),
                "changed": 1.0 if before is None else float((codes != before).float().mean()),
                "used": float(len(codes.unique())),
            }
        )
        before = codes
        optimizer.step()
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def starting_parts(task: Task, start: str, points: Tensor, seed: int) -> tuple[FreeAssignment, CodecModule]:
    """The first logits and codewords: the library's fresh ones, or those that k-means gives."""
    assignment = FreeAssignment(task.points, 1, task.clusters, lead=0.0, generator=generator_for(seed, "logits"))
    if start == "random":
        return assignment, make_module(task.spec, generator=generator_for(seed, "start"))
    variance = float((points - points.mean(dim=0)).square().sum())
    training = TrainingTable(points, torch.zeros(task.dim), 1.0, variance)
    if start == "warm":
        begin = warm_start(training, task.spec, seed)
    else:
        module = make_module(task.spec)
        centroids = kmeans(points, task.clusters, generator_for(seed, "start"))
        with torch.no_grad():
            module.codebook.copy_(centroids[None])
        begin = Start(nearest(points, centroids)[0][:, None], module, "warm")
    assignment.logits.data.copy_(first_logits(training, begin, seed))
    return assignment, begin.module


def kmeans_reference(task: Task, seed: int) -> dict[str, np.ndarray]:
    """One Lloyd run from k-means++ seeds, to its end, measured as `learn` measures; arrays of 1."""
    points, labels = task.data(seed)
    codes, distances = nearest(points, kmeans(points, task.clusters, generator_for(seed, "kmeans"), iterations=200))
    loss, used = float(distances.mean()), len(codes.unique())
    end = {"loss": loss, "code_loss": loss, "nmi": mutual_information(codes, labels), "changed": 0.0, "used": used}
    return {name: np.array([value]) for name, value in end.items()}


def end_record(variant: str, seed: int, curves: dict[str, np.ndarray], seconds: float) -> dict[str, Any]:
    """A flat record of where a run ended, and where its loss was lowest on the way."""
    lowest = int(curves["loss"].argmin())
    return {
        "variant": variant,
        "seed": seed,
        "loss": round(float(curves["loss"][-1]), 4),
        "code_loss": round(float(curves["code_loss"][-1]), 4),
        "nmi": round(float(curves["nmi"][-1]), 4),
        "changed": round(float(curves["changed"][-LAST:].mean()), 5),
        "codewords_used": int(curves["used"][-1]),
        "lowest_loss": round(float(curves["loss"][lowest]), 4),
        "lowest_loss_iteration": lowest,
        "seconds": round(seconds, 1),
    }


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean, least and greatest over the seeds of each variant, as flat records."""
    summary = []
    for name in dict.fromkeys(row["variant"] for row in rows):
        record: dict[str, Any] = {"variant": name}
        for measure in ("loss", "code_loss", "nmi", "changed", "lowest_loss"):
            values = [row[measure] for row in rows if row["variant"] == name]
            record[measure] = round(float(np.mean(values)), 5)
            record |= {f"{measure}_min": min(values), f"{measure}_max": max(values)}
        summary.append(record)
    return summary


def thinned(runs: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Mean, least and greatest over runs: at every iteration up to 20, at every tenth afterwards."""
    length = len(runs[0]["loss"])
    kept = [place for place in range(1, length) if place <= 20 or place % 10 == 0]
    curves: dict[str, Any] = {"iteration": kept}
    for name in ("loss", "code_loss", "nmi", "changed"):
        values = np.stack([run[name] for run in runs])[:, kept]
        for part, taken in (("mean", values.mean(0)), ("min", values.min(0)), ("max", values.max(0))):
            curves[f"{name}_{part}"] = [float(f"{value:.4g}") for value in taken]
    return curves


def claims(summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the paper says of this experiment, and whether it was seen; means over seeds."""
    by = {record["variant"]: record for record in summary}
    schedule, constant, soft = (by[variant.name] for variant in VARIANTS[:3])
    margin = schedule["nmi"] - max(constant["nmi"], soft["nmi"])
    rise = soft["loss"] / soft["lowest_loss"]
    others_change = min(constant["changed"], soft["changed"])
    loss_ratio = schedule["loss"] / min(constant["loss"], soft["loss"])
    warm = by["warm start, schedule"]["nmi_min"], by["greedy warm start, schedule"]["nmi_min"]
    listed: list[tuple[str, float, bool]] = [
        ("NMI with schedule is at least 0.97", schedule["nmi"], schedule["nmi"] >= 0.97),
        ("NMI with schedule is at least 0.03 above both others", margin, margin >= 0.03),
        ("loss with schedule over the lower of the others is below 1", loss_ratio, loss_ratio < 1),
        ("codes that change with schedule are below 0.5% at the end", schedule["changed"], schedule["changed"] < 0.005),
        ("codes that change with the others stay above 1%", others_change, others_change > 0.01),
        ("soft: loss at the end over its lowest is above 1", rise, rise > 1),
        ("warm start: every NMI is at least 0.995", warm[0], warm[0] >= 0.995),
        ("greedy warm start: every NMI is at least 0.995", warm[1], warm[1] >= 0.995),
    ]
    return [{"claim": text, "measured": round(value, 5), "holds": bool(holds)} for text, value, holds in listed]


def run_seeds(task: Task, variant: Variant | None, seeds: Iterable[int], experiment: Experiment) -> Runs:
    """A variant, or k-means++ where it is None, on every seed."""
    rows, curves = [], []
    for seed in seeds:
        started = time.perf_counter()
        curves.append(kmeans_reference(task, seed) if variant is None else learn(task, variant, seed))
        name = KMEANS if variant is None else variant.name
        rows.append(end_record(name, seed, curves[-1], time.perf_counter() - started))
        experiment.say("{variant}, seed {seed}: loss {loss}, NMI {nmi}, {changed:.2%} change".format(**rows[-1]))
    return Runs(rows, curves)


def draw(path: Path, curves: dict[str, Any], reference: dict[str, Any]) -> None:
    """Loss, NMI and share of changing codes over iterations: means, with bands from least to greatest."""
    titles = ("mean squared loss per point", "NMI of codes and clusters", "share of codes changed")
    with panels(path, 3, height=3.4) as axes:
        for axis, measure, title in zip(axes, ("loss", "nmi", "changed"), titles, strict=True):
            for color, (name, curve) in zip(COLORS, curves.items(), strict=False):
                axis.plot(curve["iteration"], curve[f"{measure}_mean"], color=color, label=name, linewidth=1.6)
                low, high = curve[f"{measure}_min"], curve[f"{measure}_max"]
                axis.fill_between(curve["iteration"], low, high, color=color, alpha=0.2, linewidth=0)
            axis.set(xlabel="iteration (update by all points)", ylabel=title)
            if measure != "changed":
                axis.axhline(reference[measure], color="#444444", linestyle=":", linewidth=1.4, label=KMEANS)
        soft = curves[VARIANTS[2].name]
        axes[0].plot(
            soft["iteration"], soft["code_loss_mean"], color=COLORS[2], linestyle="--", label="soft: loss of its codes"
        )
        axes[0].set_yscale("log")
        axes[1].legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="lower right")
        axes[2].set_ylim(0, 0.5)


def main() -> None:
    """Run all variants on all seeds, write the results and draw them."""
    experiment = Experiment(__file__, __doc__)
    arguments = experiment.read_arguments()
    torch.set_num_threads(1)  # sums in the same order, however many processors there are
    keep_freed_memory()
    task = TINY if arguments.tiny else Task()
    seeds = range(arguments.seed, arguments.seed + task.seeds)
    rows, curves = [], {}
    for variant in VARIANTS:
        runs = run_seeds(task, variant, seeds, experiment)
        rows += runs.rows
        curves[variant.name] = thinned(runs.curves)
    rows += run_seeds(task, None, seeds, experiment).rows
    summary = summarise(rows)
    distances = [closest_centres(*task.data(seed)) / task.spread for seed in seeds]
    settings = {
        **asdict(task),
        "seeds": list(seeds),
        "schedule": asdict(FALLING),
        "constant_temperature": CONSTANT.initial,
        "optimizer": "Adam, betas 0.9 and 0.999, rates constant",
        "first_logits": "normal, spread 0.01; warm starts: kdcode.learning.gradient.logits.first_logits",
        "first_codewords": "normal, spread 1; warm starts: centroids of k-means",
        "iteration": "one update by all points; also what t counts in the schedule",
        "changed": f"share of codes that differ from those of the iteration before, mean of the last {LAST}",
        "closest_centres_in_spreads": round(min(distances), 1),
        "rates_picked_by": "clustering_search.py, on other seeds",
    }
    experiment.write(settings, rows, summary=summary, claims=claims(summary), curves=curves)
    draw(experiment.figure_path(), curves, summary[-1])
    print(f"{'variant':<30} {'loss':>8} {'of codes':>9} {'NMI':>7} {'least':>7} {'changed':>8}")
    for record in summary:
        print("{variant:<30} {loss:8.3f} {code_loss:9.3f} {nmi:7.4f} {nmi_min:7.4f} {changed:8.2%}".format(**record))
    for record in claims(summary):
        print("{holds!s:>5}: {claim} ({measured:.4g})".format(**record))


if __name__ == "__main__":
    main()
