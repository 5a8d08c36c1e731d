"""The page of a run: the values for its templates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import ExitCode
from ttf.rundir.documents import Summary
from ttf.text import numbers
from ttf.text.numbers import moment
from ttf.text.progress.ending import kept_weights, not_improved
from ttf.tools.report.page._charts import charts
from ttf.tools.report.page._read import RunFiles, ShownIncident
from ttf.tools.report.page._share_of_machine import share_of_machine
from ttf.tools.report.page._story import status_of, story
from ttf.tools.report.page._time_by_phase import time_by_phase
from ttf.tools.report.page._what_ran import what_ran
from ttf.tools.report.render import cut, render

_TEMPLATE: Final = Path(__file__).with_name("run.html")
_OUR_FAULT: Final = "This is a bug in ttf. Please report it with the text above."
# The number of last incidents with a card; the page takes the first number that fits.
CARDS: Final = (60, 25, 8, 0)
_MOST_INCIDENTS: Final = 100
# Values of the summary on top of the page.
_FIGURES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "steps": ("optimizer steps", "{:,}".format),
    "epochs": ("epochs", "{:.1f}".format),
    "samples_per_s": ("samples/s", "{:,.0f}".format),
    "wall_s": ("time", numbers.duration),
    "peak_anon_mb": (
        "peak memory",
        lambda megabytes: numbers.size(megabytes * 1e6) if megabytes else "not measured",
    ),
    "predicted_anon_mb": ("predicted", lambda megabytes: numbers.size(megabytes * 1e6)),
    "miner": ("miner", str),
    "restarts": ("restarts", str),
    "incidents": ("incidents", lambda met: str(len(met))),
    "exact": ("bitwise as without interruptions", lambda exact: "yes" if exact else "no"),
}


def page_of(run: RunFiles) -> bytes:
    values = values_of(run)
    return render(_TEMPLATE, ({**values, "num_cards": num} for num in CARDS))


def values_of(run: RunFiles) -> dict[str, Any]:
    """For run.html and what it includes, without `num_cards`."""
    return {
        "run": run,
        "status": status_of(run),
        "story": story(run),
        "hint": _hint(run.summary),
        "figures": _figures(run.summary),
        "what_ran": what_ran(run),
        "metrics": _metrics(run),
        "charts": charts(run),
        "spent": time_by_phase(run),
        "near": share_of_machine(run),
        "incidents": [_row(found) for found in run.incidents[-_MOST_INCIDENTS:]],
        "config": [setting for setting in run.config if setting.origin != "default"],
        "moment": _moment,
        "defaults": [setting for setting in run.config if setting.origin == "default"],
        "environment": list(_flat("", run.manifest)),
    }


def _hint(summary: Summary) -> str:
    ours = _OUR_FAULT if summary.get("exit_code") == ExitCode.OUR_FAULT else ""
    return summary.get("hint") or ours


def _figures(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = [key for key in _FIGURES if summary.get(key) not in (None, "", [])]
    return [(_FIGURES[key][0], _FIGURES[key][1](summary[key])) for key in known]


def _metrics(run: RunFiles) -> dict[str, Any]:
    """The metrics before training, of the kept (or final) weights, and of the last evaluation."""
    summary = run.summary
    before, last = summary.get("metrics_initial", {}), summary.get("metrics_last", {})
    after, title = _metrics_to_compare(run)
    columns = {"before": _shown(before)}
    if after:
        columns[title] = _shown(after)
        both = [name for name in after if name in before]
        columns["change"] = {name: numbers.change(before[name], after[name]) for name in both}
        calibrated = summary.get("metrics", {}) if "metrics_uncalibrated" in summary else {}
        if calibrated:
            columns["calibrated"] = _shown(calibrated)
    if after and last and last != after and (step := _evaluated_last(run)):
        columns[f"last: step {step:,}"] = _shown(last)
    return {
        "head": ["metric", *columns],
        "rows": [[n, *(c.get(n, "") for c in columns.values())] for n in after or before],
        "trained": bool(after),
        "not_improved": not_improved(summary),
        "kept": kept_weights(summary),
    }


def _shown(metrics: Mapping[str, float]) -> dict[str, str]:
    return {name: numbers.metric(name, value) for name, value in metrics.items()}


def _metrics_to_compare(run: RunFiles) -> tuple[Mapping[str, float], str]:
    """The metrics to compare with those before training, and their title."""
    summary = run.summary
    kept = summary.get("kept_step")
    # Training moved the metrics without calibration.
    trained = summary.get("metrics_uncalibrated") or summary.get("metrics", {})
    if kept is not None:
        return trained, f"kept: step {kept:,}"
    if summary.get("status") == "finished":
        return trained, "after"
    step = _evaluated_last(run)
    return (summary.get("metrics_last", {}), f"step {step:,}") if step else ({}, "")


def _evaluated_last(run: RunFiles) -> int:
    return max((line.get("step", 0) for line in run.evals), default=0)


def _row(found: ShownIncident) -> tuple[str, ...]:
    step, phase = found.get("step"), found.get("phase") or ""
    where = phase if step is None else f"{phase}, step {step}"
    if (micro := found.get("micro_batch")) is not None:
        where += f", micro-batch {micro} of {found.get('micro_batches')}"
    names = (found["id"], found["class"], found.get("process", ""), where)
    return *(cut(name, 80) for name in names), cut(
        found.get("remedy") or "restarted unchanged", 200
    )


def _moment(seconds: float) -> str:
    return f" - {moment(seconds)}" if seconds else ""


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value)
