"""The page itself: what happened, what ran, curves, incidents, tables. Nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from ttf.errors import ExitCode
from ttf.rundir.documents import Summary
from ttf.text import numbers
from ttf.text.progress.ending import kept_weights, not_improved
from ttf.tools.report.page._charts import charts
from ttf.tools.report.page._incidents import incidents
from ttf.tools.report.page._near import how_near
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._story import status_of, story
from ttf.tools.report.page._style import STYLE
from ttf.tools.report.page._tables import cut, folded, section, table
from ttf.tools.report.page._time_spent import time_spent
from ttf.tools.report.page._what_ran import what_ran

MOST_BYTES: Final = 480_000
OUR_FAULT: Final = "This is a fault of ttf, not of yours: please report it with the text above."
_CARDS: Final = (60, 25, 8, 0)
"""Incidents told in full: as many as the page has room for."""
_MOST_ROWS: Final = 400
_LONGEST: Final = 500


def render(run: RunFiles) -> str:
    page = ""
    for cards in _CARDS:
        page = _rendered(run, cards)
        if len(page) < MOST_BYTES:
            break
    return page


def _rendered(run: RunFiles, cards: int) -> str:
    status = status_of(run)
    title = "guarded command" if run.guarded else "ttf run"
    parts = [
        f"<h1>{escape(run.name)} <span class='s {escape(status)}'>{escape(status)}</span></h1>",
        f"<p class='l'>{escape(story(run))}</p>",
        _problem(run),
        _numbers(run.summary),
        what_ran(run),
        _metrics(run),
        f"<div class='charts'>{charts(run)}</div>",
        time_spent(run),
        how_near(run),
        incidents(run, cards),
        _config(run),
        _environment(run),
        "".join(f"<p class='w'>{escape(cut(p, _LONGEST))}</p>" for p in run.problems),
    ]
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(run.name)}: {title}</title><style>{STYLE}</style></head>"
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


def _numbers(summary: Summary) -> str:
    shown: list[tuple[str, str]] = []
    if "steps" in summary:
        shown.append(("optimizer steps", f"{summary['steps']:,}"))
    if "epochs" in summary:
        shown.append(("epochs", f"{summary['epochs']:.1f}"))
    if "samples_per_s" in summary:
        shown.append(("samples/s", f"{summary['samples_per_s']:,.0f}"))
    if "wall_s" in summary:
        shown.append(("time", numbers.duration(summary["wall_s"])))
    if "peak_anon_mb" in summary:
        shown.append(("peak memory", numbers.size(summary["peak_anon_mb"] * 1e6)))
    if summary.get("miner"):
        shown.append(("miner", summary["miner"]))
    if "restarts" in summary:
        shown.append(("restarts", str(summary["restarts"])))
    if met := summary.get("incidents"):
        shown.append(("incidents", str(len(met))))
    if "exact" in summary:
        shown.append(("numbers exact", "yes" if summary["exact"] else "no"))
    cells = "".join(f"<div><b>{escape(v)}</b>{escape(k)}</div>" for k, v in shown)
    return f"<div class='n'>{cells}</div>" + _deviations(summary)


def _deviations(summary: Summary) -> str:
    notes = summary.get("deviations", [])
    items = "".join(f"<li>{escape(cut(note, _LONGEST))}</li>" for note in notes[:50])
    if not items:
        return ""
    return f"<p>What made the numbers differ from an undisturbed run:</p><ul>{items}</ul>"


def _metrics(run: RunFiles) -> str:
    """Before training beside the weights that were kept, or where it ended, the last evaluation."""
    summary = run.summary
    before, last = summary.get("metrics_initial", {}), summary.get("metrics_last", {})
    after, title = _after(run)
    extra = _evaluated_last(run) if after and last and last != after else 0
    head = ["metric", "before", *([title, "change"] if after else [])]
    head += [f"last: step {extra:,}"] if extra else []
    rows = []
    for name in after or before:
        old, now = before.get(name), after.get(name)
        row = [name, _metric(name, old)]
        if after:
            moved = "" if old is None or now is None else numbers.change(old, now)
            row += [_metric(name, now), moved]
        rows.append([*row, *([_metric(name, last.get(name))] if extra else [])])
    if not rows:
        return ""
    body = _remark(run, bool(after)) + table(head, rows, numbers=(1, 2, 4), kind="m")
    return section("Validation against the full bank", body)


def _after(run: RunFiles) -> tuple[Mapping[str, float], str]:
    """The metrics to show beside those before training, and what they are of."""
    summary = run.summary
    kept = summary.get("kept_step")
    if kept is not None:
        return summary.get("metrics", {}), f"kept: step {kept:,}"
    if summary.get("status") == "finished":
        return summary.get("metrics", {}), "after"
    step = _evaluated_last(run)
    return (summary.get("metrics_last", {}), f"step {step:,}") if step else ({}, "")


def _evaluated_last(run: RunFiles) -> int:
    return max((line.get("step", 0) for line in run.evals), default=0)


def _remark(run: RunFiles, trained: bool) -> str:
    if not trained:
        return "<p>The run ended before anything was evaluated after training.</p>"
    remark = not_improved(run.summary)
    if remark:
        return f"<p class='w'>{escape(remark[0].upper() + remark[1:])}.</p>"
    kept = kept_weights(run.summary)
    return f"<p>The weights kept are those of {escape(kept)}.</p>" if kept else ""


def _config(run: RunFiles) -> str:
    if not run.config:
        return ""
    rows = [tuple(cut(cell, _LONGEST) for cell in row) for row in run.config]
    changed = [row for row in rows if row[2] != "default"]
    default = [row for row in rows if row[2] == "default"]
    head = ("key", "value", "from")
    body = table(head, changed) if changed else "<p>Everything is at its default.</p>"
    if default:
        body += folded(f"{len(default)} values at their default", table(head, default))
    return section("Configuration", body)


def _environment(run: RunFiles) -> str:
    rows = [(cut(k, 200), cut(v, _LONGEST)) for k, v in _flat("", run.manifest)]
    if not rows:
        return ""
    left_out = f" (the first {_MOST_ROWS})" if len(rows) > _MOST_ROWS else ""
    where = "environment.json" if run.guarded else "manifest.json"
    shown = table(("what", "value"), rows[:_MOST_ROWS])
    return section("Environment", folded(f"{len(rows)} entries of {where}{left_out}", shown))


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, str):
        yield prefix, value
    else:
        yield prefix, json.dumps(value)


def _metric(name: str, value: float | None) -> str:
    return "" if value is None else numbers.metric(name, value)
