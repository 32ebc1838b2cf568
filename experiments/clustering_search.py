"""Which learning rates and temperatures suit the clustering experiment, on seeds that it does not report.

    python experiments/clustering_search.py

Every variant of `clustering.py` that starts at random is run with every pair of rates; then, with the pair that is best
with the schedule, other constant temperatures and a slower schedule. So each variant is also seen at its own best.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product

import torch
from clustering import TINY, VARIANTS, Task, Variant, run_seeds, summarise
from experiment import Experiment
from language_model import keep_freed_memory
from schedule import Schedule

LOGIT_RATES = (0.0025, 0.005, 0.01)
CODEWORD_RATES = (0.1, 0.2)
OTHERS = (
    *(Variant(f"straight-through, T = {value}", "straight-through", Schedule(value)) for value in (0.1, 0.01, 0.003)),
    Variant("straight-through, decay 0.1", "straight-through", Schedule(decay=0.1)),
)
FIRST_SEED = 1000
"""Of the seeds that are searched on."""


def main() -> None:
    """Run the search and write a row per variant and pair of rates, each a mean over seeds."""
    experiment = Experiment(__file__, __doc__)
    arguments = experiment.read_arguments()
    torch.set_num_threads(1)
    keep_freed_memory()
    task = TINY if arguments.tiny else replace(Task(), seeds=2, iterations=400)
    seeds = range(FIRST_SEED + arguments.seed, FIRST_SEED + arguments.seed + task.seeds)
    rows = []

    def run(variant: Variant, logit_rate: float, codeword_rate: float) -> None:
        rated = replace(task, logit_rate=logit_rate, codeword_rate=codeword_rate)
        found = summarise(run_seeds(rated, variant, seeds, experiment).rows)[0]
        rows.append({"logit_rate": logit_rate, "codeword_rate": codeword_rate, **found})

    schedule = VARIANTS[0]
    for rates in product(LOGIT_RATES[:1] if arguments.tiny else LOGIT_RATES, CODEWORD_RATES):
        for variant in VARIANTS[:3]:
            run(variant, *rates)
    best = max((row for row in rows if row["variant"] == schedule.name), key=lambda row: float(row["nmi"]))
    for variant in OTHERS:
        run(variant, best["logit_rate"], best["codeword_rate"])
    settings = {**asdict(task), "seeds": list(seeds)}
    del settings["logit_rate"], settings["codeword_rate"]
    picked = {name: best[name] for name in ("logit_rate", "codeword_rate", "nmi")}
    experiment.write(settings, rows, picked=picked)
    for row in rows:
        print("{variant:<30} {logit_rate:6} {codeword_rate:6} loss {loss:7.3f} NMI {nmi:.4f}".format(**row))


if __name__ == "__main__":
    main()
