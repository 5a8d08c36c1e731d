"""Files that are well-formed JSON and mean nothing: a page comes of them, and a bundle."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st
from tests.unit.tools.report.test_page import Checked

from ttf.tools.report.bundle import write_bundle
from ttf.tools.report.page import page_of, read_run

KEYS = st.sampled_from(
    [
        "type",
        "step",
        "time",
        "seconds",
        "loss",
        "metrics",
        "yield",
        "anon",
        "shared",
        "file",
        "limit",
        "peak",
        "status",
        "exit_code",
        "steps",
        "epochs",
        "wall_s",
        "incidents",
        "id",
        "class",
        "process",
        "phase",
        "evidence",
        "remedies",
        "lost_steps",
        "command",
        "data",
        "versions",
        "deviations",
        "metrics_initial",
        "metrics_last",
        "kept_step",
        "problem",
        "hint",
        "restarts",
        "exact",
        "explanation",
        "source",
        "text",
        "set",
        "bank_rows",
        "query_dim",
        "train_pairs",
        "recall@10",
        "data_s",
        "miner",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["step", "eval", "mining", "checkpoint", "finished", "segfault", "001", "miner"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
RECORDS = st.dictionaries(KEYS, VALUES, max_size=8)


@given(
    summary=VALUES,
    manifest=VALUES,
    metrics=st.lists(RECORDS, max_size=6),
    memory=st.lists(RECORDS, max_size=4),
    incident=VALUES,
)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_files_say_there_is_a_page_and_a_bundle(
    summary: Any, manifest: Any, metrics: list[Any], memory: list[Any], incident: Any
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "incidents" / "001").mkdir(parents=True)
        (folder / "incidents" / "001" / "incident.json").write_text(json.dumps(incident))
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "manifest.json").write_text(json.dumps(manifest))
        for file, lines in (("metrics", metrics), ("memory", memory)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{file}.jsonl").write_text(text)
        Checked(page_of(read_run(folder)).decode())
        write_bundle(folder, folder / "b.zip")
