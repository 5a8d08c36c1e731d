"""One plugin's options and whether it can run here. A third-party plugin is loaded in a process of
its own: its crash, exit or hang is a finding with a name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import PluginBroken, PluginUnavailable
from ttf.host import options as plugin_options, plugins
from ttf.host.plugin_faults import mend

if TYPE_CHECKING:
    from ttf.host.installed import PluginInfo
    from ttf.process.serve import Tell

_DEADLINE_S: Final = 120.0


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


def describe(info: PluginInfo) -> Description:
    """Call it in the main thread."""
    if info.ours:
        return _here(info)
    from ttf.process.error_document import from_document
    from ttf.supervise.isolated_tasks import WAITS_S, Task, run

    request = {"kind": info.kind, "name": plugins.choice_of(info)}
    work = f"{__name__}:described"
    ended = run(Task(work=work, request=request, deadline_s=_DEADLINE_S, idle_s=WAITS_S))
    if ended.error is not None:
        raise from_document(ended.error)
    if ended.finding is not None:
        raise PluginBroken(
            f"The plugin {info.reference} of the distribution {info.distribution} {info.version} "
            f"(module {info.entry_point.module}) crashed while it was loaded: "
            f"{ended.finding.name}. {ended.finding.explanation}",
            hint=mend(info),
        )
    assert ended.answer is not None
    return Description(**ended.answer)


def described(request: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """The task of the process."""
    found = asdict(_here(plugins.find(request["kind"], request["name"])))
    # A default may be of any type.
    answer: Mapping[str, Any] = json.loads(json.dumps(found, default=str))
    return answer


def _here(info: PluginInfo) -> Description:
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
    if info.kind in ("encoder", "exporter", "executor"):
        examples = {
            "encoder": _encode_example(name, described),
            "exporter": f"ttf export RUN_DIR {name} --out DIR",
            "executor": f"ttf ab a.toml b.toml --executor {name}",
        }
        example = examples[info.kind]
        return Description(
            **common,
            summary=doc.partition("\n")[0],
            available=state.ok,
            reason=state.reason,
            fix=state.fix,
            options=described,
            example=example if state.ok else "",
        )
    section = "tower.query" if info.kind == "tower" else f"{info.kind}.{name}"
    chosen = f"ttf train --{info.kind} {name}"
    first = described[0] if described else None
    setting = f" --set {section}.{first['name']}={shown(first['default'])}" if first else ""
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


def _encode_example(name: str, described: Sequence[Mapping[str, Any]]) -> str:
    model = " --model MODEL" if any(o["name"] == "model" for o in described) else ""
    return f"ttf data encode texts.csv --encoder {name}{model} --out data"


def _observer_state(name: str) -> tuple[bool, str, str]:
    """Returns (available, reason, fix)."""
    try:
        plugins.observer(name)
    except PluginUnavailable as error:
        return False, str(error), error.hint
    return True, "", ""


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
