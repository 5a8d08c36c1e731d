"""What the processes of a run spent on exchanging gradients; part of `ttf.rundir.documents`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ttf.rundir.typed_json import is_number


class ExchangeSummary(TypedDict, total=False):
    """In summary.json of a run on several processes."""

    steps: int  # those whose exchange was measured
    seconds: float  # of a step's exchange, the median
    share: float  # of the time of all steps
    planned_seconds: float  # as `--plan` predicts them
    planned_share: float


def measured(lines: Iterable[Mapping[str, Any]]) -> ExchangeSummary:
    """From the lines of metrics.jsonl; empty if no step has an exchange.

    >>> measured([{"type": "step", "seconds": 2.0, "exchange_s": 0.1}, {"type": "eval"}])
    {'steps': 1, 'seconds': 0.1, 'share': 0.05}
    """
    exchanged: list[float] = []
    whole = 0.0
    for line in lines:
        exchange, seconds = line.get("exchange_s"), line.get("seconds")
        if line.get("type") == "step" and is_number(exchange) and is_number(seconds):
            exchanged.append(exchange)
            whole += seconds
    if not exchanged:
        return {}
    share = sum(exchanged) / whole if whole > 0 else 0.0
    return {"steps": len(exchanged), "seconds": statistics.median(exchanged), "share": share}
