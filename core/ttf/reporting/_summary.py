"""The last words about a run, from its summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttf.reporting import text as _text


def summary_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) pairs; what the summary does not hold is left out."""
    rows = [(str(summary.get("status", "ended")), _what_was_done(summary))]
    initial = summary.get("metrics_initial") or {}
    for name, now in (summary.get("metrics") or {}).items():
        shown = _text.metric(name, now)
        if name in initial:
            old = initial[name]
            shown = f"{_text.metric(name, old)} -> {shown}  {_text.change(old, now)}"
        rows.append((name, shown))
    if summary.get("restarts"):
        rows.append(("restarts", str(summary["restarts"])))
    if summary.get("exact") is False:
        rows.append(("not exact", "; ".join(map(str, summary.get("deviations") or ["unknown"]))))
    return rows


def _what_was_done(summary: Mapping[str, Any]) -> str:
    parts = []
    if "steps" in summary:
        parts.append(f"{summary['steps']:,} steps")
    if "wall_s" in summary:
        parts.append(f"in {_text.duration(summary['wall_s'])}")
    if summary.get("samples_per_s"):
        parts.append(f"{summary['samples_per_s']:,.0f} samples/s")
    if summary.get("peak_anon_mb"):
        parts.append(f"peak memory {_text.size(summary['peak_anon_mb'] * 1e6)}")
    return ", ".join(parts)
