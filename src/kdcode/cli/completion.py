"""`kdcode completion`: the script that lets a shell complete kdcode's commands and flags."""

from __future__ import annotations

import click

from kdcode.cli.flags import example


@click.command(
    "completion",
    epilog=example(
        'eval "$(kdcode completion bash)"     # in ~/.bashrc',
        'eval "$(kdcode completion zsh)"      # in ~/.zshrc',
        "kdcode completion fish | source      # in ~/.config/fish/config.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    Load it in the startup file of the shell, as shown below.
    """
    from click.shell_completion import get_completion_class

    from kdcode.cli import main

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(main, {}, "kdcode", "_KDCODE_COMPLETE").source())
