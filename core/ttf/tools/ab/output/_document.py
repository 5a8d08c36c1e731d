"""The study for scripts: the contract's JSON document, and a CSV of one row a repeat."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.output.rows import FIRST, in_order, metric_names, scalars
from ttf.tools.ab.sample import Sample


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
