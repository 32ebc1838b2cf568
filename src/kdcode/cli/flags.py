"""Options dataclasses as command-line flags: one list of options, written once, in the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from importlib import import_module
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import click

from kdcode.errors import OptionError

Options = TypeVar("Options")

_SHORT = {"codebook_size": "-K", "code_length": "-D"}
"""The paper's letters, for the two flags that every run sets."""


class FlaggedCommand(click.Command):
    """A command with one more flag for every field of some dataclasses.

    The dataclasses are imported when the flags are first needed, which keeps `kdcode --help` free of numpy.

    Args:
        flags_of: heading in the help to "module:Dataclass".
    """

    def __init__(self, *args: Any, flags_of: Mapping[str, str], **settings: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **settings)
        self._flags_of = flags_of
        self._sections: dict[str, list[click.Option]] | None = None

    def sections(self) -> dict[str, list[click.Option]]:
        """The flags made from dataclasses, by heading."""
        if self._sections is None:
            self._sections = {title: flags_for(_named(home)) for title, home in self._flags_of.items()}
        return self._sections

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the made ones, then --help."""
        *own, last = super().get_params(ctx)
        return [*own, *(flag for flags in self.sections().values() for flag in flags), last]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own flags first, then one block per dataclass."""
        blocks = {"Options": [param for param in super().get_params(ctx) if isinstance(param, click.Option)]}
        for title, flags in {**blocks, **self.sections()}.items():
            records = [record for flag in flags if (record := flag.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)


def flags_for(options: type[Any]) -> list[click.Option]:
    """One flag per field: its name with dashes, its type, its default, and `help` and `choices` of its metadata."""
    hints = get_type_hints(options)
    return [_flag(item, hints[item.name]) for item in fields(options)]


def take(options: type[Options], values: dict[str, Any]) -> Options:
    """Remove a dataclass's fields from the values that click parsed, and build it of them.

    Raises:
        click.UsageError: a value is refused; the message names the flag.
    """
    items = fields(options)  # type: ignore[arg-type]
    try:
        return options(**{item.name: values.pop(item.name) for item in items})
    except OptionError as error:
        message = str(error)
        named = next((item for item in items if message.startswith(item.name)), None)
        raise click.UsageError(message.replace(named.name, _dashed(named), 1) if named else message) from error


def given(options: object) -> list[str]:
    """The flags that say what differs from the defaults."""
    changed = [item for item in fields(options) if getattr(options, item.name) != item.default]  # type: ignore[arg-type]
    return [word for item in changed for word in (_dashed(item), str(getattr(options, item.name)))]


def example(*lines: str) -> str:
    """The end of a help text: commands to copy, kept on their own lines."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def _flag(item: Field[Any], hint: Any) -> click.Option:  # noqa: ANN401 - a type or a union of types
    dashed = _dashed(item)
    kind = next((part for part in get_args(hint) if part is not NoneType), hint)
    choices = item.metadata.get("choices")
    if kind is bool:
        dashed = f"{dashed}/--no-{dashed[2:]}"
    names = [dashed, item.name] if item.name not in _SHORT else [_SHORT[item.name], dashed, item.name]
    return click.Option(
        names,
        type=click.Choice(choices) if choices else kind,
        default=None if item.default is MISSING else item.default,
        required=item.default is MISSING,
        show_default=item.default not in (None, MISSING),
        help=item.metadata["help"],
    )


def _dashed(item: Field[Any]) -> str:
    return f"--{item.name.replace('_', '-')}"


def _named(home: str) -> type[Any]:
    module, name = home.split(":")
    found: type[Any] = getattr(import_module(module), name)
    return found
