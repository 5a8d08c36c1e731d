"""Writes docs/cli.md from the commands' own help: `make docs`. A test holds it up to date."""

from __future__ import annotations

from pathlib import Path

import click

from ttf.cli import cli

HEAD = """# The commands

Made from `ttf --help` and every command's `--help` by `make docs`; do not edit by hand.
"""


def page() -> str:
    """The help of `ttf` and of every command, as Markdown."""
    return "\n".join([HEAD, *_sections(cli, "ttf", None)])


def _sections(command: click.Command, path: str, parent: click.Context | None) -> list[str]:
    context = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        terminal_width=100,
        # As at the command line: a context takes what it is not told from its parent.
        **({} if parent else {**cli.context_settings, "max_content_width": None}),
    )
    text = command.get_help(context)
    plain = "\n".join(line.rstrip() for line in text.splitlines())
    found = [f"## `{path}`\n\n```text\n{plain}\n```\n"]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += _sections(inner, f"{path} {name}", context)
    return found


if __name__ == "__main__":
    Path(__file__).with_name("cli.md").write_text(page(), encoding="utf-8")
