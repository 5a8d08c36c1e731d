"""Repeats and incidents as rows of tables; the CSV with a row for each repeat, and the JSON
document."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from ttf.text.terminal import visible
from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.measures import last_quarter
from ttf.tools.ab.sample import Sample

# The fixed columns, in this order; a column for each metric follows.
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
    "host",
]
_FORMULA: Final = ("=", "+", "-", "@")  # A spreadsheet computes a cell that begins so.
# By it a file is known as an earlier table; those of one host had no last column.
CSV_MARK: Final = ",".join(FIRST[:-1]).encode()


def scalars(sample: Sample, metrics: Sequence[str]) -> dict[str, Any]:
    """All values of a repeat except its curves; None if it has no such value."""
    values: Mapping[str, Any] = {
        **{name: getattr(sample, name, None) for name in FIRST},
        "incidents": len(sample.incidents),
        "classes": classes(sample),
        "loss": last_quarter(sample),
    }
    return {**values, **{name: sample.metrics.get(name) for name in metrics}}


def classes(sample: Sample) -> str:
    counted = Counter(incident.name for incident in sample.incidents)
    return ", ".join(name if n == 1 else f"{name} {n}" for name, n in counted.items())


def metric_names(samples: Sequence[Sample]) -> list[str]:
    """The metrics of all repeats, recall@10 before recall@100."""

    def natural(name: str) -> list[tuple[bool, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts]

    return sorted({name for sample in samples for name in sample.metrics}, key=natural)


def in_order(samples: Sequence[Sample]) -> list[Sample]:
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
    """CONTRACT: `arms`, `comparisons`, `verdict`; also the rest of the analysis, and every sample."""
    return {**asdict(analysis), "samples": [asdict(sample) for sample in in_order(samples)]}


def csv_text(samples: Sequence[Sample]) -> str:
    # Without curves: they are in samples.jsonl and in the JSON document.
    metrics = metric_names(samples)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, [*FIRST, *metrics]))
    for row in (scalars(sample, metrics) for sample in in_order(samples)):
        writer.writerow(map(_cell, row.values()))
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
