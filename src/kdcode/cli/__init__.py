"""The command line: each command is one file here, a library call and printing.

Command modules import click alone when they are loaded, so that `kdcode --help` answers at once; numpy, torch and rich
are imported by the functions that use them.
"""

from __future__ import annotations

import errno
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import TracebackType
from typing import Any, cast

import click

from kdcode._version import __version__
from kdcode.cli.files import with_given_names
from kdcode.cli.flags import example, in_flags
from kdcode.cli.torchrun import as_one_of_several
from kdcode.cpus import respect_quota
from kdcode.errors import KdcodeError
from kdcode.printable import shown

COMMANDS = (
    "demo",
    "plan",
    "compress",
    "compress-model",
    "learn-codebook",
    "encode",
    "assemble",
    "append",
    "info",
    "get",
    "neighbors",
    "codes",
    "expand",
    "export",
    "verify",
    "evaluate",
    "compare",
    "report",
    "formats",
    "completion",
)
"""In the order of `kdcode --help`; each is a module of this package, underscores for dashes, with a `command` in it."""

FAILED = 1
INTERRUPTED = 130


class _Commands(click.Group):
    """A group that imports a command when it is asked for, and turns refusals into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"kdcode.cli.{cmd_name.replace('-', '_')}").command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # noqa: ANN401 - click's own signature
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:  # noqa: ANN401 - click's own signature
        with _safe_usage_errors():
            return super().make_context(*args, **settings)

    def main(self, *args: Any, **settings: Any) -> Any:  # noqa: ANN401 - click's own signature
        with as_one_of_several():
            return super().main(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        respect_quota()  # numpy and torch are not imported yet
        sys.excepthook = _show_traceback
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a symbol that the terminal cannot show is no failure
        try:
            with warnings.catch_warnings(), _safe_usage_errors():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except KdcodeError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "") or self
            _fail(ctx, with_given_names(in_flags(str(error), command, ctx), ctx))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of our output went away; click ends quietly
            _fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KeyboardInterrupt as interruption:
            click.echo(shown(f"interrupted{interruption}"), err=True)
            ctx.exit(INTERRUPTED)


def _fail(ctx: click.Context, message: str) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {shown(message)}", err=True)
    ctx.exit(FAILED)


@contextmanager
def _safe_usage_errors() -> Iterator[None]:
    """Escape what was given on the command line where click repeats it."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # its message is the help text
    except click.ClickException as error:
        vars(error)["message"] = shown(error.message)
        raise


def _show_warning(message: Warning | str, *_place: object, **_more: object) -> None:
    click.echo(f"{click.style('warning:', fg='yellow')} {shown(str(message))}", err=True)


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that nobody expected, as Python does, with what is not safe to print escaped."""
    lines = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n").split("\n")
    click.echo("\n".join(map(shown, lines)), err=True)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("kdcode demo", "kdcode compress glove.txt glove.kdc --size 20x", "kdcode neighbors glove.kdc king"),
)
@click.version_option(__version__, prog_name="kdcode", message="%(prog)s %(version)s")
def main() -> None:
    """Compress embedding tables by learned quantization.

    Each symbol is stored as a few small integers instead of hundreds of floats.
    """
