"""Repeats and incidents as rows of tables; the study for scripts: a CSV of one row a repeat, and the
contract's JSON document."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.measures import last_quarter
from ttf.tools.ab.sample import Sample

FIRST: Final = [
    "arm",
    "block",
    "position",
    "seed",
    "outcome",
    "crashed",
    "first_crash",
    "incidents",
    "classes",
    "exit_code",
    "steps",
    "wall_s",
    "samples_per_s",
    "peak_anon_mb",
    "memory_slope_mb_per_1k_steps",
    "loss",
    "exact",
    "weights_sha256",
    "reason",
]
"""Columns that are always there, in this order; behind them a column for each metric there is."""


def scalars(sample: Sample, metrics: Sequence[str]) -> dict[str, Any]:
    """Everything of a repeat but its curves; None where it did not come to it."""
    values: Mapping[str, Any] = {
        **{name: getattr(sample, name, None) for name in FIRST},
        "incidents": len(sample.incidents),
        "classes": classes(sample),
        "loss": last_quarter(sample),
    }
    return {**values, **{name: sample.metrics.get(name) for name in metrics}}


def classes(sample: Sample) -> str:
    """'segfault 2, hang'"""
    counted = Counter(incident.name for incident in sample.incidents)
    return ", ".join(name if n == 1 else f"{name} {n}" for name, n in counted.items())


def metric_names(samples: Sequence[Sample]) -> list[str]:
    """All that any repeat has, recall@10 before recall@100."""

    def natural(name: str) -> list[tuple[bool, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in parts]

    return sorted({name for sample in samples for name in sample.metrics}, key=natural)


def in_order(samples: Sequence[Sample]) -> list[Sample]:
    """As they were asked for: block by block."""
    return sorted(samples, key=lambda s: (s.block, s.position))


def incident_rows(analysis: Analysis, samples: Sequence[Sample]) -> list[Sequence[str]]:
    """(class, process, incidents of each arm); the most frequent first."""
    counted = Counter((i.name, i.process, s.arm) for s in samples if s.counted for i in s.incidents)
    kinds = Counter((i.name, i.process) for s in samples if s.counted for i in s.incidents)
    return [
        (*kind, *(str(counted[(*kind, arm.name)] or "-") for arm in analysis.arms))
        for kind, _ in kinds.most_common()
    ]


def document(analysis: Analysis, samples: Sequence[Sample]) -> dict[str, Any]:
    """CONTRACT: `arms`, `comparisons`, `verdict`; more of the analysis, and every sample."""
    return {**asdict(analysis), "samples": [asdict(sample) for sample in in_order(samples)]}


def csv_text(samples: Sequence[Sample]) -> str:
    """Curves are not in it: they are in samples.jsonl and in the JSON document."""
    metrics = metric_names(samples)
    out = io.StringIO()
    writer = csv.DictWriter(out, [*FIRST, *metrics], lineterminator="\n")
    writer.writeheader()
    for row in (scalars(sample, metrics) for sample in in_order(samples)):
        writer.writerow({k: int(v) if isinstance(v, bool) else v for k, v in row.items()})
    return out.getvalue()
