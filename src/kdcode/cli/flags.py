"""Options dataclasses as command-line flags: one list of options, written once, in the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import click

from kdcode.errors import OptionError

Options = TypeVar("Options")
Sections = Mapping[str, Sequence[click.Option]]
"""Flags by the heading that they have in the help text."""

_OWN = "Options"
"""The heading of a command's own flags."""

_SHORT_NAMES = {"codebook_size": "-K", "code_length": "-D"}
"""The paper's letters, for the two flags that most runs set."""

_ALL_ASKED = "kdcode.help_all"


class FlaggedCommand(click.Command):
    """A command with flags made from dataclasses, and with a short help where it has many flags.

    Args:
        sections: gives the made flags by heading. It is called when the flags are first needed, which keeps
            `kdcode --help` free of numpy.
        short: the flags that `--help` shows, in this order; `--help-all` then shows all. Without it `--help` does.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        sections: Callable[[], Sections],
        short: Sequence[str] = (),
        **settings: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **settings)
        self.sections = cache(sections)
        self._short = short
        self._help_all = [_help_all_flag()] if short else []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the made ones, then --help and --help-all."""
        *own, last = super().get_params(ctx)
        made = [flag for flags in self.sections().values() for flag in flags]
        return [*own, *made, last, *self._help_all]

    def full_help(self, ctx: click.Context) -> str:
        """The help text with every flag."""
        ctx.meta[_ALL_ASKED] = True
        return self.get_help(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags of the short help, or every flag under its heading."""
        flags = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        blocks: dict[str, Sequence[click.Option]]
        if self._short and not ctx.meta.get(_ALL_ASKED):
            by_name = {flag.name: flag for flag in flags}
            blocks = {_OWN: [*(by_name[name] for name in self._short), *flags[-2:]]}  # the last two are for help
        else:
            made = [flag for block in self.sections().values() for flag in block]
            blocks = {_OWN: [flag for flag in flags if flag not in made], **self.sections()}
        for title, block in blocks.items():
            records = [record for flag in block if (record := flag.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)


def reading_sections(title: str = "Reading") -> Sections:
    """The flags of how a file is read."""
    from kdcode.io import ReadOptions

    return {title: flags_for(ReadOptions)}


def flags_for(options: type[Any], only: Collection[str] | None = None) -> list[click.Option]:
    """One flag per field: its name with dashes, its type, its default, and `help` and `choices` of its metadata.

    Args:
        options: a dataclass.
        only: the names of the fields that are wanted; all of them where left out.
    """
    hints = get_type_hints(options)
    return [_flag(item, hints[item.name]) for item in fields(options) if only is None or item.name in only]


def take(options: type[Options], values: dict[str, Any]) -> Options:
    """Remove a dataclass's fields from the values that click parsed, and build it of them.

    Raises:
        click.UsageError: a value is refused; the message names the flag.
    """
    names = [item.name for item in fields(options)]  # type: ignore[arg-type]
    with naming_flags():
        return options(**{name: values.pop(name) for name in names})


@contextmanager
def naming_flags(refusal: type[Exception] = click.UsageError) -> Iterator[None]:
    """Let refusals of options name flags: a message that begins with the name of a field begins with its flag."""
    try:
        yield
    except OptionError as error:
        message = str(error)
        context = click.get_current_context()
        for param in context.command.get_params(context):
            name = param.name or ""
            if isinstance(param, click.Option) and message.startswith((f"{name} ", f"{name}:")):
                rest = in_flags(message.removeprefix(name), context.command, context)
                raise refusal(dashed(name) + rest) from error
        raise


def in_flags(message: str, command: click.Command, context: click.Context) -> str:
    """A message of the library with flags in place of keywords: `--format glove` where it says `format='glove'`.

    Keywords are recognised by their equals sign, after a space or a bracket; names of files come first in a message.
    """
    flags = {long.removeprefix("--").replace("-", "_"): long for param in command.get_params(context)
             if isinstance(param, click.Option) for long in param.opts if long.startswith("--")}  # fmt: skip

    def flag(found: re.Match[str]) -> str:
        if found["name"] not in flags:
            return found[0]
        return flags[found["name"]] + (f" {found['value']}" if found["value"] is not None else "")

    return re.sub(r"(?<=[ (])(?P<name>[a-z_]+)=(?:'(?P<value>[^' ]*)')?", flag, message)


def is_given(name: str) -> bool:
    """Whether the flag of this name was set by the user: its default does not count."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)


def changed_flags(options: object) -> list[str]:
    """The words of a command line that say what differs from the defaults."""
    changed = [item for item in fields(options) if getattr(options, item.name) != item.default]  # type: ignore[arg-type]
    return [word for item in changed for word in (dashed(item.name), str(getattr(options, item.name)))]


def example(*lines: str) -> str:
    """The end of a help text: commands to copy, kept on their own lines."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def dashed(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def _flag(item: Field[Any], hint: Any) -> click.Option:  # noqa: ANN401 - a type or a union of types
    flag = dashed(item.name)
    kind = next((part for part in get_args(hint) if part is not NoneType), hint)
    choices = item.metadata.get("choices")
    if kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    names = [flag, item.name] if item.name not in _SHORT_NAMES else [_SHORT_NAMES[item.name], flag, item.name]
    return click.Option(
        names,
        type=click.Choice(choices) if choices else kind,
        default=None if item.default is MISSING else item.default,
        required=item.default is MISSING,
        show_default=item.default not in (None, MISSING),
        help=item.metadata["help"],
    )


def _help_all_flag() -> click.Option:
    def show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing and isinstance(ctx.command, FlaggedCommand):
            click.echo(ctx.command.full_help(ctx), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options, including codes, learners and file reading.",
    )
