"""`ttf plugins`: lists installed plugins without importing them, and shows one plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.commands._output import emit_json, next_command, say, show
from ttf.commands.plugins_check import command as check, complete, find
from ttf.commands.plugins_new import command as new
from ttf.text.numbers import bound
from ttf.text.tables import table

if TYPE_CHECKING:
    from ttf.host.installed import PluginInfo

_KINDS = ("tower", "miner", "storage", "device", "observer", "check")


@click.group(short_help="What is installed, and one plugin's options.", commands=[new, check])
def command() -> None:
    """What is installed, and one plugin's options."""


@command.command(
    "list",
    epilog="""\b
Examples:
  ttf plugins list
  ttf plugins list --kind miner
  TTF_DISABLE_PLUGINS=some-package ttf plugins list --json""",
)
@click.option(
    "--kind", type=options.choice("kind", *_KINDS), metavar="KIND", help="Only this kind."
)
@options.as_json
def list_(kind: str | None, as_json: bool) -> None:
    """Every installed plugin, from metadata alone: nothing is imported.

    With --json: [{"kind", "name", "distribution", "version", "api", "available", "reason"}];
    "available" is null where only loading the plugin can tell (ttf plugins show KIND.NAME does).
    """
    from ttf.host import plugin_list

    found = [e for e in plugin_list.entries() if kind in (None, e.kind)]
    if as_json:
        emit_json(found)
    elif not found:
        say(f"No {kind or 'plugin'} is installed besides what ttf itself does.")
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
    """One plugin's options with type, default and bounds, and whether it can run here."""
    found = _describe(find(reference))
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
        rows = [[o["name"], o["type"], _shown(o["default"]), _bounds(o), o["unit"], o["help"]]
                for o in found.options]  # fmt: skip
        show(table(rows, ["option", "type", "default", "bounds", "unit", "what"]))
    else:
        show("It has no options.")
    if found.example:
        next_command(found.example)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `ttf plugins show --json` prints."""

    kind: str
    name: str
    distribution: str
    version: str
    summary: str = ""
    available: bool = True
    reason: str = ""
    fix: str = ""
    options: Sequence[dict[str, Any]] = ()
    section: str = ""  # the configuration section for the options
    example: str


def _describe(info: PluginInfo) -> Description:
    from ttf.host import options as plugin_options, plugins

    common: dict[str, Any] = {
        key: getattr(info, key) for key in ("kind", "name", "distribution", "version")
    }
    name = plugins.choice_of(info)
    if info.kind == "observer":
        ok, reason, fix = _observer_state(name)
        example = f"ttf train --set observers='[\"{name}\"]'" if ok else ""
        return Description(
            **common, available=ok, reason=reason, fix=fix, section="observers", example=example
        )
    if info.kind == "check":
        title = str(getattr(plugins.check(name), "title", ""))
        return Description(**common, summary=title, example=f"ttf doctor --check {name}")
    factory = plugins.load(info.kind, name)
    state = factory.availability()
    described = [
        vars(o) | {"bounds": dict(o.bounds)} for o in plugin_options.describe(factory.options_type)
    ]
    doc = vars(type(getattr(factory, "wrapped", factory))).get("__doc__") or ""
    section = "tower.query" if info.kind == "tower" else f"{info.kind}.{name}"
    chosen = f"ttf train --{info.kind} {name}"
    first = described[0] if described else None
    setting = f" --set {section}.{first['name']}={_shown(first['default'])}" if first else ""
    return Description(
        **common,
        summary=doc.partition("\n")[0],
        available=state.ok,
        reason=state.reason,
        fix=state.fix,
        options=described,
        section=section,
        example=(chosen + setting) if state.ok and info.kind != "storage" else "",
    )


def _observer_state(name: str) -> tuple[bool, str, str]:
    """Returns (available, reason, fix)."""
    from ttf.errors import PluginUnavailable
    from ttf.host import plugins

    try:
        plugins.observer(name)
    except PluginUnavailable as error:
        return False, str(error), error.hint
    return True, "", ""


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _bounds(option: dict[str, Any]) -> str:
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return ", ".join(f"{signs[key]} {bound(value)}" for key, value in option["bounds"].items())
