"""What the provenance of a table says of how its codes were learned, by name, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kdcode.options import LEARNER_OPTIONS
from kdcode.printable import shown
from kdcode.provenance import CURVE, MEASURED


def learned_with(provenance: Mapping[str, Any]) -> dict[str, str]:
    """The learner, its options, and what else provenance has, without what was measured, unset options and the curve.

    Nothing in it can break a line, whoever wrote the file.
    """
    rest = {name: value for name, value in provenance.items() if name not in MEASURED}
    options, learner = rest.get("options"), rest.get("learner")
    if isinstance(options, dict) and isinstance(learner, str) and learner in LEARNER_OPTIONS:
        applied = {"seed", "loss", *(item.name for item in fields(LEARNER_OPTIONS[learner]))}
        rest["options"] = {name: value for name, value in options.items() if name in applied}
    return _flat(rest)


def _flat(values: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in values.items():
        if name == CURVE:  # numbers by the dozen, which `kdcode report` draws
            continue
        if isinstance(value, dict):
            flat.update(_flat(value))
        elif value is not None:
            flat[shown(name)] = shown(f"{value:.6g}" if isinstance(value, float) else str(value))
    return flat
