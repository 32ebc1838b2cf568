"""The flags of `kdcode compress`: options of every run, and those of each learner under its own heading."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from kdcode.cli.flags import Sections, flags_for, is_given, naming_flags, reading_sections, take
from kdcode.wording import listed

if TYPE_CHECKING:
    from kdcode.options import CompressOptions


def compress_sections() -> Sections:
    """All flags made from dataclasses: codes, learner by learner, reading."""
    from kdcode.options import CompressOptions

    return {"Codes": flags_for(CompressOptions), **learner_sections(), **reading_sections()}


def learner_sections() -> Sections:
    """The flags of learners; one that several learners have stands once, under the names of them all."""
    from kdcode.options import LEARNER_OPTIONS

    sections: dict[str, list[click.Option]] = {}
    for name, learners in _owners().items():
        title = f"{listed(learners).capitalize()} learner{'s' if len(learners) > 1 else ''}"
        (flag,) = flags_for(LEARNER_OPTIONS[learners[0]], only=[name])
        flag.help = " ".join([flag.help or "", *_other_defaults(name, learners)])
        sections.setdefault(title, []).append(flag)
    return sections


def _other_defaults(name: str, learners: list[str]) -> list[str]:
    """Sentences about learners whose default is not that of the first one, which click shows."""
    from kdcode.options import LEARNER_OPTIONS

    first, *others = (getattr(LEARNER_OPTIONS[learner], name) for learner in learners)
    return [
        f"The default of {learner} is {value}."
        for learner, value in zip(learners[1:], others, strict=True)
        if value != first
    ]


def take_options(values: dict[str, Any]) -> CompressOptions:
    """Remove the options of a run and of its learner from the values that click parsed, and build them.

    Raises:
        click.UsageError: a value is refused, or a flag of another learner was given.
    """
    from kdcode.options import CompressOptions

    of_learners = {name: values.pop(name) for name in _owners()}
    with naming_flags():
        given = {name: value for name, value in of_learners.items() if is_given(name)}
        return take(CompressOptions, values).changed(**given)


def _owners() -> dict[str, list[str]]:
    """The options of learners by name, each with the learners that have it."""
    from kdcode.options import LEARNER_OPTIONS

    owners: dict[str, list[str]] = {}
    for learner, options in LEARNER_OPTIONS.items():
        for item in fields(options):
            owners.setdefault(item.name, []).append(learner)
    return owners
