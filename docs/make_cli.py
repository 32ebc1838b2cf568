"""Write docs/cli.md from the full help text of every command.

    python docs/make_cli.py

A test compares the two and fails when the page is out of date.
"""

from pathlib import Path

import click

from kdcode.cli import COMMANDS, main
from kdcode.cli.flags import FlaggedCommand

TARGET = Path(__file__).with_name("cli.md")
WIDTH = 100

OPENING = """\
# The command line

This page is the help text of every command, with all of its options; `python docs/make_cli.py` writes it.
`kdcode compress --help` shows the options that most runs need, and `kdcode compress --help-all` shows all of them.

Results go to stdout, everything else to stderr. With `--json` a command prints one JSON document and nothing else.
A dash (`-`) reads a file from standard input or writes one to standard output.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | refused or failed; stderr has one line that begins with `error:` |
| 2 | the command was called wrongly |
| 130 | interrupted with Ctrl-C; the same `compress` resumes from its checkpoint |
| 143, 129 | the same for SIGTERM, which schedulers send, and SIGHUP, which a terminal sends that is closed |
"""


def page() -> str:
    """The whole text of docs/cli.md."""
    settings = {"terminal_width": WIDTH, "help_option_names": ["-h", "--help"]}
    group = click.Context(main, info_name="kdcode", **settings)
    parts = [OPENING, _section("kdcode", main.get_help(group))]
    for name in COMMANDS:
        command = main.get_command(group, name)
        context = click.Context(command, parent=group, info_name=name, **settings)
        text = command.full_help(context) if isinstance(command, FlaggedCommand) else command.get_help(context)
        parts.append(_section(f"kdcode {name}", text))
    return "\n".join(parts)


def _section(title: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"## {title}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
