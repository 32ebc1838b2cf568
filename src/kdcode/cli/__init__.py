"""The command line: each command is one file here, a library call and printing.

Command modules import click alone when they are loaded, so that `kdcode --help` answers at once; numpy, torch and rich
are imported by the functions that use them.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Any, cast

import click

from kdcode._version import __version__
from kdcode.cli.files import with_given_names
from kdcode.cli.flags import example, in_flags
from kdcode.cpus import respect_quota
from kdcode.errors import KdcodeError

COMMANDS = (
    "demo",
    "plan",
    "compress",
    "info",
    "get",
    "neighbors",
    "codes",
    "expand",
    "verify",
    "formats",
    "completion",
)
"""In the order of `kdcode --help`; each is a module of this package with a `command` in it."""

FAILED = 1
INTERRUPTED = 130


class _Commands(click.Group):
    """A group that imports a command when it is asked for, and turns refusals into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"kdcode.cli.{cmd_name}").command)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        respect_quota()  # numpy and torch are not imported yet
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a symbol that the terminal cannot show is no failure
        try:
            return super().invoke(ctx)
        except KdcodeError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "") or self
            _fail(ctx, with_given_names(in_flags(str(error), command, ctx), ctx))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of our output went away; click ends quietly
            _fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KeyboardInterrupt as interruption:
            click.echo(f"interrupted{interruption}", err=True)
            ctx.exit(INTERRUPTED)


def _fail(ctx: click.Context, message: str) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    ctx.exit(FAILED)


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
