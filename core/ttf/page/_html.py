"""The page itself: head numbers, charts, tables. No scripts, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeGuard

from ttf.errors import ExitCode
from ttf.page._charts import charts
from ttf.page._read import RunFiles
from ttf.page._style import STYLE
from ttf.reporting import text
from ttf.reporting.ending import kept_weights, not_improved

MOST_INCIDENTS = 100
OUR_FAULT = "This is a fault of ttf, not of yours: please report it with the text above."


def render(run: RunFiles) -> str:
    status = str(run.summary.get("status", "unfinished"))
    parts = [
        f"<h1>{escape(run.name)} <span class='s {escape(status)}'>{escape(status)}</span></h1>",
        _problem(run),
        _numbers(run.summary),
        _metrics(run),
        f"<div class='charts'>{charts(run)}</div>",
        _incidents(run),
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
    hint = str(run.summary.get("hint") or (OUR_FAULT if code == ExitCode.OUR_FAULT else ""))
    advice = f"<br><b>What to do:</b> {escape(hint)}" if hint else ""
    return (
        f"<p class='w'>Ended with exit code {escape(str(code))}: {escape(str(problem))}{advice}</p>"
    )


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
    if summary.get("incidents"):
        shown.append(("incidents", str(len(summary["incidents"]))))
    if "exact" in summary:
        shown.append(("numbers exact", "yes" if summary["exact"] else "no"))
    cells = "".join(f"<div><b>{escape(v)}</b>{escape(k)}</div>" for k, v in shown)
    notes = "".join(f"<li>{escape(str(d))}</li>" for d in summary.get("deviations") or ())
    return f"<div class='n'>{cells}</div>" + (
        f"<p>What made the numbers differ from an undisturbed run:</p><ul>{notes}</ul>"
        if notes
        else ""
    )


def _metrics(run: RunFiles) -> str:
    """Before training beside the weights that were kept, or where it ended, the last evaluation."""
    summary = run.summary
    before, last = summary.get("metrics_initial") or {}, summary.get("metrics_last") or {}
    after, title = _after(run)
    extra = _evaluated_last(run) if after and last and last != after else 0
    head = ["metric", "before", *([title, "change"] if after else [])]
    head += [f"last: step {extra:,}"] if extra else []
    rows = []
    for name in after or before:
        old, now = before.get(name), after.get(name)
        row = [name, _metric(name, old)]
        if after:
            moved = text.change(old, now) if _is_number(old) and _is_number(now) else ""
            row += [_metric(name, now), moved]
        rows.append([*row, *([_metric(name, last.get(name))] if extra else [])])
    if not rows:
        return ""
    table = _table(head, rows, numbers=(1, 2, 4), kind="m")
    return _section("Validation against the full bank", _remark(run, bool(after)) + table)


def _after(run: RunFiles) -> tuple[Mapping[str, Any], str]:
    """The metrics to show beside those before training, and what they are of."""
    summary = run.summary
    kept = summary.get("kept_step")
    if _is_number(kept):
        return summary.get("metrics") or {}, f"kept: step {kept:,}"
    if summary.get("status") == "finished":
        return summary.get("metrics") or {}, "after"
    step = _evaluated_last(run)
    return (summary.get("metrics_last") or {}, f"step {step:,}") if step else ({}, "")


def _evaluated_last(run: RunFiles) -> int:
    return max((e["step"] for e in run.evals if isinstance(e.get("step"), int)), default=0)


def _remark(run: RunFiles, trained: bool) -> str:
    if not trained:
        return "<p>The run ended before anything was evaluated after training.</p>"
    remark = not_improved(run.summary)
    if remark:
        return f"<p class='w'>{escape(remark[0].upper() + remark[1:])}.</p>"
    kept = kept_weights(run.summary)
    return f"<p>The weights kept are those of {escape(kept)}.</p>" if kept else ""


def _incidents(run: RunFiles) -> str:
    """What each was and what was done; the folder has the evidence."""
    if not run.incidents:
        return ""
    shown = run.incidents[-MOST_INCIDENTS:]
    left_out = len(run.incidents) - len(shown)
    before = f"<p>{left_out} incidents before these are in the folder.</p>" if left_out else ""
    head = ("incident", "class", "process", "where", "what was done about it")
    table = _table(head, map(_incident, shown), kind="m")
    told = "".join(
        f"<p><b>{escape(str(found.get('id')))}</b> {escape(str(found['explanation']))}</p>"
        for found in shown
        if found.get("explanation")
    )
    more = f"<details><summary>What happened, by the evidence</summary>{told}</details>"
    return _section("Incidents", before + table + (more if told else ""))


def _incident(found: Mapping[str, Any]) -> tuple[str, ...]:
    step, phase = found.get("step"), found.get("phase")
    where = f"{phase or ''}, step {step}" if _is_number(step) else str(phase or "")
    name, process = str(found.get("class") or ""), str(found.get("process") or "")
    return (
        str(found.get("id") or ""),
        name,
        process,
        where,
        str(found.get("remedy") or "nothing changed"),
    )


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


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    kind: str = "kv",
) -> str:
    """`kind`: "m" for figures, "kv" for keys and long values, which a phone shows stacked."""
    style = f"{kind} three" if len(head) == 3 else kind

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = [' class="r"' if i in numbers else "" for i in range(len(row))]
        return "".join(
            f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(row, marks, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<div class='o'><table class='{style}'><thead><tr>{cells('th', head)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _metric(name: str, value: Any) -> str:
    return text.metric(name, value) if _is_number(value) else ""


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
