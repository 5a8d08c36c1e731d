"""The last lines about a run, from its summary; other code writes its table to standard output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.text import numbers as _text

# Of a digest: to compare two runs by eye, and short enough for a line. summary.json has all of it.
_SHOWN_DIGITS: Final = 16
MOST_INCIDENTS: Final = 10


# Keys of a summary with label and unit.
_FIGURES: Final = {
    "status": ("status", ""),
    "steps": ("optimizer steps", ""),
    "epochs": ("epochs", ""),
    "samples": ("samples", ""),
    "wall_s": ("time", "s"),
    "samples_per_s": ("speed", "samples/s"),
    "peak_anon_mb": ("peak memory", "MB (anonymous + shared)"),
}


def in_a_line(summary: Mapping[str, Any]) -> str:
    """Status, steps and the metric that the weights were chosen by, with its value before."""
    parts = [str(summary.get("status", "unknown"))]
    if summary.get("steps") is not None:
        parts.append(f"{summary['steps']:,} steps")
    metrics, before = summary.get("metrics") or {}, summary.get("metrics_initial") or {}
    name = summary.get("chosen_by") or next(iter(metrics), "")
    if name in metrics:
        start = f" (before training {before[name]:.4f})" if name in before else ""
        parts.append(f"{name} {metrics[name]:.4f}{start}")
    return ", ".join(parts)


def _figure(name: str, value: Any, unit: str) -> str:
    if name == "peak_anon_mb" and not value:
        return "not measured"
    return f"{_text.number(value)} {unit}".rstrip()


def summary_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs: the whole result of a run."""
    before = summary.get("metrics_initial") or {}
    rows = [
        (label, _figure(name, summary[name], unit))
        for name, (label, unit) in _FIGURES.items()
        if summary.get(name) is not None
    ]
    if summary.get("predicted_anon_mb") and summary.get("peak_anon_mb"):
        rows.append(("predicted", predicted_memory(summary)))
    if text := governed(summary):
        rows.append(("memory limit", text))
    if text := exchange(summary):
        rows.append(("exchange", text))
    plain = summary.get("metrics_uncalibrated") or {}
    for name, value in (summary.get("metrics") or {}).items():
        beside = [f"without calibration {plain[name]:.4f}"] if name in plain else []
        beside += [f"before training {before[name]:.4f}"] if name in before else []
        rows.append((name, f"{value:.4f}  ({', '.join(beside)})" if beside else f"{value:.4f}"))
    if text := calibration(summary):
        rows.append(("calibration", text))
    rows += gate_rows(summary) + what_happened(summary) + remarks(summary)
    if summary.get("miner"):
        rows.append(("miner", str(summary["miner"])))
    if digest := str(summary.get("weights_sha256") or ""):
        rows.append(("weights", f"sha256 {digest[:_SHOWN_DIGITS]}..."))
    if summary.get("run_dir"):
        rows.append(("folder", str(summary["run_dir"])))
    return rows


def calibration(summary: Mapping[str, Any]) -> str:
    """'a = 0.5, chosen on 2,000 held-out training pairs'; why not, if it is off; else ''."""
    found = summary.get("calibration")
    if not isinstance(found, Mapping) or "on" not in found:
        return ""
    if not found["on"]:
        return f"off: {found.get('why', 'no reason was noted')}"
    held_out = found.get("held_out")
    chosen = f", chosen on {held_out:,} held-out training pairs" if held_out else ""
    return f"a = {_text.number(found.get('a'))}{chosen}"


def governed(summary: Mapping[str, Any]) -> str:
    """What the governor did for the memory limit; '' if nothing.

    >>> governed({"memory": {"limit_mb": 1200, "source": "memory.limit", "shrunk": 2, "grown": 1}})
    '1.2 GB (memory.limit): caches were made smaller 2 times, larger once; no number changes'
    """
    found = summary.get("memory")
    if not isinstance(found, Mapping) or not (found.get("shrunk") or found.get("grown")):
        return ""
    done = [
        f"{how} {'once' if times == 1 else f'{times:,} times'}"
        for how, times in (("smaller", found.get("shrunk")), ("larger", found.get("grown")))
        if times
    ]
    limit = _text.size(1e6 * float(found.get("limit_mb") or 0))
    return f"{limit} ({found.get('source')}): caches were made {', '.join(done)}; no number changes"


def exchange(summary: Mapping[str, Any]) -> str:
    """How long the processes of a run exchanged gradients, beside the plan; '' for one process.

    >>> measured = {"seconds": 0.021, "share": 0.031, "planned_seconds": 0.02, "planned_share": 0.029}
    >>> exchange({"exchange": measured})
    '21 ms in a step, 3.1% of the time; planned were 20 ms, 2.9%'
    """
    found = summary.get("exchange")
    if not isinstance(found, Mapping) or "seconds" not in found:
        return ""
    text = f"{_text.fine_duration(found['seconds'])} in a step, {found.get('share', 0.0):.1%} of the time"
    if "planned_seconds" not in found:
        return text
    planned = _text.fine_duration(found["planned_seconds"])
    return f"{text}; planned were {planned}, {found.get('planned_share', 0.0):.1%}"


def predicted_memory(summary: Mapping[str, Any]) -> str:
    """'812.0 MB, 3% less than the peak'"""
    predicted, peak = summary["predicted_anon_mb"], summary["peak_anon_mb"]
    off = round(100 * (predicted - peak) / peak)
    than = "as much as" if not off else f"{abs(off)}% {'more' if off > 0 else 'less'} than"
    return f"{_text.number(predicted)} MB, {than} the peak"


def last_lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs: where everything is, and which weights the run ends with."""
    rows: list[tuple[str, str]] = []
    if summary.get("run_dir"):
        folder = Path(summary["run_dir"])
        rows += [("run folder", str(folder)), ("report", str(folder / "report.html"))]
    if kept := kept_weights(summary):
        rows.append(("kept", kept))
    return rows


def last_notes(summary: Mapping[str, Any]) -> list[str]:
    """Notes that are shown at the end in any case."""
    found = []
    if remark := not_improved(summary):
        found.append(remark)
    if summary.get("exact") is False:
        reasons = "; ".join(map(str, summary.get("deviations") or ["unknown"]))
        found.append(
            f"the results are not bitwise equal to those of an uninterrupted run: {reasons}"
        )
    return found


def gate_text(gate: Mapping[str, Any]) -> str:
    """'gate at epoch 2 (step 40), recall@10 >= 0.6: passed with 0.6250'"""
    value, passed = gate.get("value"), gate.get("passed")
    text = f"gate at {gate.get('at')} (step {gate.get('step')}), {gate.get('need')}"
    if passed is None or value is None:
        return f"{text}: not judged yet"
    return f"{text}: {'passed' if passed else 'not met'} with {value:.4f}"


def gate_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("gate", gate_text(gate).removeprefix("gate ")) for gate in summary.get("gates") or ()]


def what_happened(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs about faults that the run survived; none without faults."""
    rows: list[tuple[str, str]] = []
    if summary.get("restarts"):
        rows.append(("restarts", str(summary["restarts"])))
    incidents = [found for found in summary.get("incidents") or () if isinstance(found, Mapping)]
    if len(incidents) > MOST_INCIDENTS:
        rows.append(("incidents", f"{len(incidents)}; the last {MOST_INCIDENTS}:"))
    for found in incidents[-MOST_INCIDENTS:]:
        done = found.get("remedy") or "restarted unchanged"
        text = f"{found.get('class')} ({found.get('process')}): {done}"
        rows.append((f"incident {found.get('id')}", text))
    if summary.get("exact") is False:
        reasons = map(str, summary.get("deviations") or ["the reason is unknown"])
        rows += [("not exact", reason) for reason in reasons]
    elif incidents:
        rows.append(("numbers", "bitwise equal to those of an uninterrupted run"))
    return rows


def remarks(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs: what one must know to judge the result."""
    return [("note", str(text)) for text in summary.get("notes") or ()]


def kept_weights(summary: Mapping[str, Any]) -> str:
    """'step 6 of 8, the best by recall@10'; '' if a run kept none or did not say."""
    kept, steps = summary.get("kept_step"), summary.get("steps")
    if not isinstance(kept, int) or not isinstance(steps, int):
        return ""
    if kept == steps:
        return f"step {kept:,}, the last one"
    return f"step {kept:,} of {steps:,}, the best by {summary.get('chosen_by', 'its metric')}"


def not_improved(summary: Mapping[str, Any]) -> str:
    """A sentence if there were training steps and the kept weights are no better for them."""
    kept, metric = summary.get("kept_step"), summary.get("chosen_by", "its metric")
    if not isinstance(kept, int) or not summary.get("steps"):
        return ""
    if kept == 0:
        return f"training did not improve {metric}; ttf keeps the weights from before the training"
    before = (summary.get("metrics_initial") or {}).get(metric)
    plain = summary.get("metrics_uncalibrated") or summary.get("metrics") or {}
    now = plain.get(metric)
    if before is None or now is None or now > before:
        return ""
    return (
        f"training did not improve {metric}: it was {_text.metric(metric, before)} before the "
        "training, "
    ) + (f"and it is {_text.metric(metric, now)} with the weights of step {kept:,}")
