"""The paper's figure on temperature: for K = 2 the tempered softmax goes from a smooth curve to a step as T falls.

    python experiments/temperature.py

With two codewords, 1 and 0, and logits x and 0, what a gradient estimator selects is its weight on the first codeword.
So the curves are those of the library's own estimators at many x: `soft` for y = 1 / (1 + exp(−x / T)), and
`straight_through` for the gradient that logits get although its output is a step. Widths and slopes are measured on
them, and the closed forms stand beside.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Experiment
from figure import COLORS, panels
from schedule import Schedule
from torch import Tensor

from kdcode.nn.estimators import ESTIMATORS

TEMPERATURES = (10.0, 1.0, 0.5, 0.1, 0.01)
DECAYS = (1.0, 0.1, 0.01)
WORDS = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
"""(D, K, e) = (1, 2, 1)."""
VALUE_AT = 0.5
"""Where a value of each curve is written down."""


def selected(estimator: str, x: Tensor, temperature: float) -> Tensor:
    """(n,) weights on the first codeword for (n,) differences of the two logits, by an estimator of the library."""
    logits = torch.stack([x, torch.zeros_like(x)], dim=1)[:, None]  # (n, D, K)
    return ESTIMATORS[estimator](logits, WORDS, temperature).words[:, 0, 0]


def gradient(estimator: str, x: Tensor, temperature: float) -> Tensor:
    """(n,) derivatives of `selected` as automatic differentiation gives them."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(selected(estimator, x, temperature).sum(), x)[0]


def crossing(level: float, temperature: float) -> float:
    """The x at which the soft estimator reaches a level, by bisection."""
    low, high = -100 * temperature, 100 * temperature
    for _ in range(80):
        middle = (low + high) / 2
        below = float(selected("soft", torch.tensor([middle], dtype=torch.float64), temperature)) < level
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def measure(temperature: float) -> dict[str, Any]:
    """A flat record of one temperature: what was measured on the estimators, and what is known."""
    x = torch.linspace(-30, 30, 6001, dtype=torch.float64) * temperature
    slopes = gradient("straight-through", x, temperature)
    hard = selected("straight-through", x, temperature)
    at = torch.tensor([VALUE_AT], dtype=torch.float64)
    known = 1 / (1 + torch.exp(-x / temperature))
    return {
        "temperature": temperature,
        "value": float(selected("soft", at, temperature)),
        "value_known": 1 / (1 + math.exp(-VALUE_AT / temperature)),
        "width": crossing(0.9, temperature) - crossing(0.1, temperature),
        "width_known": 2 * math.log(9) * temperature,
        "slope": float(slopes.max()),
        "slope_known": 1 / (4 * temperature),
        "slope_at": float(x[slopes.argmax()]),
        "largest_difference_from_known": float((selected("soft", x, temperature) - known).abs().max()),
        "straight_through_is_a_step": bool(((hard == 1) == (x >= 0)).all() and ((hard == 0) == (x < 0)).all()),
        "largest_gradient_difference_from_soft": float((slopes - gradient("soft", x, temperature)).abs().max()),
    }


def curves(points: int) -> dict[str, Any]:
    """What the figure shows: x, and for each temperature the value and the straight-through gradient at each x."""
    # Dense around 0, where the curves of low temperatures rise.
    x = torch.linspace(-1, 1, points, dtype=torch.float64) ** 3 * 3
    found: dict[str, Any] = {"x": _short(x)}
    for temperature in TEMPERATURES:
        found[f"value, T = {temperature:g}"] = _short(selected("soft", x, temperature))
        found[f"gradient, T = {temperature:g}"] = _short(gradient("straight-through", x, temperature))
    found["value, straight-through"] = _short(selected("straight-through", x, 1.0))
    return found


def schedules(updates: int) -> dict[str, Any]:
    """T over t for some decay rates, t in equal steps on a logarithmic scale."""
    times = sorted({round(time) for time in np.geomspace(1, updates, 40)})
    found: dict[str, Any] = {"t": times}
    for decay in DECAYS:
        schedule = Schedule(decay=decay)
        found[f"decay {decay:g}"] = [float(f"{schedule.at(time):.4g}") for time in times]
    return found


def draw(path: Path, shown: dict[str, Any], falling: dict[str, Any]) -> None:
    """Values, gradients and schedules, side by side."""
    with panels(path, 3, height=3.3) as (values, slopes, times):
        for color, temperature in zip(COLORS, TEMPERATURES, strict=False):
            name = f"T = {temperature:g}"
            values.plot(shown["x"], shown[f"value, {name}"], color=color, label=name)
            slopes.plot(shown["x"], shown[f"gradient, {name}"], color=color, label=name)
        values.set(xlabel="x, difference of the two logits", ylabel="y = 1 / (1 + exp(−x / T))")
        values.legend(fontsize=9, loc="upper left")
        slopes.set(xlabel="x, difference of the two logits", ylabel="straight-through gradient, dy/dx")
        slopes.set(yscale="log", ylim=(1e-3, 60))
        for color, decay in zip(COLORS, DECAYS, strict=False):
            times.plot(falling["t"], falling[f"decay {decay:g}"], color=color, label=f"decay rate {decay:g}")
        times.set(xscale="log", yscale="log", xlabel="t, updates or epochs", ylabel="T = 1 / (1 + decay rate · t)")
        times.legend(fontsize=9, loc="lower left")


def _short(values: Tensor) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def main() -> None:
    """Measure every temperature, write the results and draw them."""
    experiment = Experiment(__file__, __doc__)
    arguments = experiment.read_arguments()
    rows = [measure(temperature) for temperature in TEMPERATURES]
    shown, falling = curves(41 if arguments.tiny else 161), schedules(1000)
    settings = {
        "codebook_size": 2,
        "code_length": 1,
        "value_at": VALUE_AT,
        "width": "of the band of x in which y goes from 0.1 to 0.9",
        "schedules": [asdict(Schedule(decay=decay)) for decay in DECAYS],
    }
    experiment.write(settings, rows, curves=shown, schedules=falling)
    draw(experiment.figure_path(), shown, falling)
    print(f"{'T':>6} {'y at ' + str(VALUE_AT):>9} {'width 0.1 to 0.9':>17} {'2 ln 9 T':>9} {'slope':>8} {'1/(4T)':>8}")
    for row in rows:
        print(
            "{temperature:6g} {value:9.5f} {width:17.5f} {width_known:9.5f} {slope:8.4f} {slope_known:8.4f}".format(
                **row
            )
        )


if __name__ == "__main__":
    main()
