"""`ttf completion SHELL`: prints the script that completes commands, options and plugin names."""

from __future__ import annotations

import click

from ttf.commands import _options as options
from ttf.errors import TtfError
from ttf.text.terminal import say, show

_HOW = {
    "bash": """echo 'eval "$(ttf completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(ttf completion zsh)"' >> ~/.zshrc""",
    "fish": "ttf completion fish > ~/.config/fish/completions/ttf.fish",
}


@click.command(
    epilog="""\b
Examples:
  eval "$(ttf completion bash)"        only in this shell
  ttf completion fish > ~/.config/fish/completions/ttf.fish"""
)
@click.argument("shell", type=options.choice("shell", *_HOW), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the completion script for your shell (bash 4.4 or later, zsh, fish)."""
    from click.shell_completion import get_completion_class

    from ttf.cli import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise TtfError(f"The installed click has no completion for {shell}.")
    show(completion(cli, {}, "ttf", "_TTF_COMPLETE").source())
    say(f"To enable it permanently: {_HOW[shell]}")
