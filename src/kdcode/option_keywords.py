"""Options as keywords of functions: typed for editors and type checkers, and listed by `help`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any, Literal, TypedDict, TypeVar

from kdcode.options import LEARNER_OPTIONS, CompressOptions, LearnerOptions
from kdcode.wording import listed

Function = TypeVar("Function", bound=Callable[..., Any])


class OptionKeywords(TypedDict, total=False):
    """The options of `CompressOptions` and of every learner, by name; what they mean is written there."""

    codebook_size: int
    code_length: int
    composition: Literal["linear", "lstm", "product", "grouped", "transform"]
    codeword_dim: int | None
    groups: int | None
    rotation: bool
    scale_bits: int
    codebook_dtype: Literal["float32", "float16", "int8"]
    row_bytes: float | None
    rows_per_block: int | None
    codewords: bool
    loss: Literal["squared", "cosine"]
    learner: LearnerOptions | Literal["additive", "straight-through", "algorithm-1", "encoder", "random"] | None
    seed: int
    effort: Literal["fast", "normal", "best"]
    start: Literal["random", "warm", "additive"] | None
    estimator: Literal["straight-through", "soft", "gumbel"]
    curvature: float
    temperature: float
    temperature_decay: float
    epochs: int | None
    batch_size: int
    logit_lr: float
    codeword_lr: float
    composition_lr: float
    temperature_step: Literal["epoch", "update"]
    refine_rounds: int


def listing_keywords(*others: type) -> Callable[[Function], Function]:
    """Make `help` list the keywords that a function takes by `**`: all options, and fields of other dataclasses.

    Type checkers read the function's own annotation, `Unpack[...]`; this is for the signature and the docstring that
    are seen at run time.
    """
    listed = {item.name: (item, _text(item)) for other in others for item in fields(other)}
    listed |= {name: (item, _text(item, owner)) for name, (item, owner) in _all_options().items()}

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
            for name, (item, _) in listed.items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *keywords])  # type: ignore[attr-defined]
        if function.__doc__:
            lines = [f"    {name}: {text}" for name, (_, text) in listed.items()]
            function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__), "", "Keywords:", *lines])
        return function

    return decorate


def _all_options() -> dict[str, tuple[Field[Any], str]]:
    """Every option by name, with the learners that have it and their own defaults; an empty string for those of all."""
    found = {item.name: (item, "") for item in fields(CompressOptions)}
    owners: dict[str, list[tuple[str, Field[Any]]]] = {}
    for learner in LEARNER_OPTIONS.values():
        for item in fields(learner):
            owners.setdefault(item.name, []).append((learner.name, item))
    for option_name, learners in owners.items():
        item = learners[0][1]
        named = [name if own.default == item.default else f"{name} ({own.default!r})" for name, own in learners]
        found[option_name] = (item, listed(named))
    return found


def _text(item: Field[Any], owner: str = "") -> str:
    rules = item.metadata
    choices = f" One of {', '.join(rules['choices'])}." if rules.get("choices") else ""
    return f"{rules['help']}{choices}{f' For the learner {owner}.' if owner else ''} Default: {item.default!r}."
