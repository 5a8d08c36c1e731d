"""`ttf plugins`: lists installed plugins without importing them, and shows one plugin."""

from __future__ import annotations

from typing import Any

import click

from ttf.commands import _options as options
from ttf.commands._signals import exit_on_signals
from ttf.commands.plugins_check import command as check, complete, find
from ttf.commands.plugins_new import command as new
from ttf.text.numbers import bound
from ttf.text.tables import table
from ttf.text.terminal import emit_json, next_command, say, show

_KINDS = (
    "tower",
    "miner",
    "storage",
    "device",
    "encoder",
    "exporter",
    "executor",
    "observer",
    "check",
)


@click.group(short_help="List the installed plugins and their options.", commands=[new, check])
def command() -> None:
    """List the installed plugins and their options."""


@command.command(
    "list",
    epilog="""\b
Examples:
  ttf plugins list
  ttf plugins list --kind miner
  TTF_DISABLE_PLUGINS=some-package ttf plugins list --json""",
)
@click.option(
    "--kind",
    type=options.choice("kind", *_KINDS),
    metavar="KIND",
    help="List only plugins of this kind.",
)
@options.as_json
def list_(kind: str | None, as_json: bool) -> None:
    """List all installed plugins from their metadata, without an import.

    With --json: [{"kind", "name", "distribution", "version", "api", "available", "reason"}];
    "available" is null if only an import can show it (ttf plugins show KIND.NAME imports it).
    """
    from ttf.host import plugin_list

    found = [e for e in plugin_list.entries() if kind in (None, e.kind)]
    if as_json:
        emit_json(found)
    elif not found:
        say(f"No {kind or 'plugin'} is installed.")
    else:
        rows = [[e.kind, e.name, e.distribution, e.version, e.reason] for e in found]
        show(table(rows, ["kind", "name", "distribution", "version", "remark"]))
    first = next((e for e in found if e.available is not False and e.kind != "observer"), None)
    if first is not None:
        next_command(f"ttf plugins show {first.kind}.{first.name}")


@command.command(
    "show",
    epilog="""\b
Examples:
  ttf plugins show tower.gru
  ttf plugins show miner.faiss --json""",
)
@click.argument("reference", shell_complete=complete, metavar="KIND.NAME")
@options.as_json
def show_(reference: str, as_json: bool) -> None:
    """Show the options of a plugin with type, default and bounds, and whether it can run here."""
    from ttf.tools.plugins.describe import describe, shown

    info = find(reference)
    with exit_on_signals():
        found = describe(info)
    if as_json:
        emit_json(found)
        return
    show(f"{found.kind}.{found.name}  ({found.distribution} {found.version})")
    if found.summary:
        show(f"  {found.summary}")
    state = "yes" if found.available else "no"
    show(f"  can run here: {state}{f' ({found.reason})' if found.reason else ''}")
    if found.fix:
        show(f"  to change that: {found.fix}")
    show()
    if found.options:
        rows = [[o["name"], o["type"], shown(o["default"]), _bounds(o), o["unit"], o["help"]]
                for o in found.options]  # fmt: skip
        show(table(rows, ["option", "type", "default", "bounds", "unit", "what"]))
    else:
        show("This plugin has no options.")
    if found.example:
        next_command(found.example)


def _bounds(option: dict[str, Any]) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return ", ".join(f"{signs[key]} {bound(value)}" for key, value in option["bounds"].items())
