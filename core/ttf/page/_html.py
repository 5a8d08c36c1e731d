"""The page itself: head numbers, charts, tables. No scripts, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeGuard

from ttf.page._charts import charts
from ttf.page._read import RunFiles
from ttf.page._style import STYLE
from ttf.reporting import text


def render(run: RunFiles) -> str:
    status = str(run.summary.get("status", "unfinished"))
    parts = [
        f"<h1>{escape(run.name)} <span class='s {escape(status)}'>{escape(status)}</span></h1>",
        _problem(run),
        _numbers(run.summary),
        _metrics(run.summary),
        f"<div class='charts'>{charts(run)}</div>",
        _incidents(run.summary),
        _config(run),
        _environment(run.manifest),
        "".join(f"<p class='w'>{escape(p)}</p>" for p in run.problems),
    ]
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(run.name)}: ttf run</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _problem(run: RunFiles) -> str:
    problem = run.summary.get("problem")
    if not problem:
        return ""
    code = run.summary.get("exit_code", "")
    return f"<p class='w'>Ended with exit code {escape(str(code))}: {escape(str(problem))}</p>"


def _numbers(summary: Mapping[str, Any]) -> str:
    shown: list[tuple[str, str]] = []
    if _is_number(steps := summary.get("steps")):
        shown.append(("optimizer steps", f"{steps:,.0f}"))
    if _is_number(epochs := summary.get("epochs")):
        shown.append(("epochs", f"{epochs:.1f}"))
    if _is_number(speed := summary.get("samples_per_s")):
        shown.append(("samples/s", f"{speed:,.0f}"))
    if _is_number(wall := summary.get("wall_s")):
        shown.append(("time", text.duration(wall)))
    if _is_number(peak := summary.get("peak_anon_mb")):
        shown.append(("peak memory", text.size(peak * 1e6)))
    if summary.get("miner"):
        shown.append(("miner", str(summary["miner"])))
    if "restarts" in summary:
        shown.append(("restarts", str(summary["restarts"])))
    if "exact" in summary:
        shown.append(("numbers exact", "yes" if summary["exact"] else "no"))
    cells = "".join(f"<div><b>{escape(v)}</b>{escape(k)}</div>" for k, v in shown)
    notes = "".join(f"<li>{escape(str(d))}</li>" for d in summary.get("deviations") or ())
    return f"<div class='n'>{cells}</div>" + (
        f"<p>What made the numbers differ from an undisturbed run:</p><ul>{notes}</ul>"
        if notes
        else ""
    )


def _metrics(summary: Mapping[str, Any]) -> str:
    before, after = summary.get("metrics_initial") or {}, summary.get("metrics") or {}
    rows = []
    for name in after or before:
        old, now = before.get(name), after.get(name)
        moved = text.change(old, now) if _is_number(old) and _is_number(now) else ""
        rows.append((name, _metric(name, old), _metric(name, now), moved))
    if not rows:
        return ""
    head = ("metric", "before", "after", "change")
    return _section("Validation against the full bank", _table(head, rows, numbers=(1, 2)))


def _incidents(summary: Mapping[str, Any]) -> str:
    rows = [
        tuple(str(found.get(key) or "") for key in ("id", "class", "process", "remedy"))
        for found in summary.get("incidents") or ()
        if isinstance(found, Mapping)
    ]
    if not rows:
        return ""
    return _section("Incidents", _table(("incident", "class", "process", "remedy"), rows))


def _config(run: RunFiles) -> str:
    if not run.config:
        return ""
    changed = [row for row in run.config if row[2] != "default"]
    default = [row for row in run.config if row[2] == "default"]
    head = ("key", "value", "from")
    body = _table(head, changed) if changed else "<p>Everything is at its default.</p>"
    if default:
        body += (
            f"<details><summary>{len(default)} values at their default</summary>"
            f"{_table(head, default)}</details>"
        )
    return _section("Configuration", body)


def _environment(manifest: Mapping[str, Any]) -> str:
    rows = list(_flat("", manifest))
    if not rows:
        return ""
    table = _table(("what", "value"), rows)
    body = f"<details><summary>{len(rows)} entries of manifest.json</summary>{table}</details>"
    return _section("Environment", body)


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, str):
        yield prefix, value
    else:
        yield prefix, json.dumps(value)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        marks = [' class="r"' if i in numbers else "" for i in range(len(row))]
        return "".join(
            f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(row, marks, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<div class='o'><table><thead><tr>{cells('th', head)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _metric(name: str, value: Any) -> str:
    return text.metric(name, value) if _is_number(value) else ""


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
