"""A run's files as the page needs them; what is missing or torn is left out and counted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_LINES = 4000
"""Step and memory lines that are parsed; of longer files every n-th."""
OFTEN = (b'"type": "step"', b'"anon"')

_HEADER = re.compile(r"\[+([^\]]+)\]+$")


@dataclass(kw_only=True)
class RunFiles:
    name: str
    summary: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    evals: list[dict[str, Any]] = field(default_factory=list)
    mining: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    """As summary.json lists them, with what incident.json says beside that."""
    config: list[tuple[str, str, str]] = field(default_factory=list)
    """(key.path, value, origin)"""
    problems: list[str] = field(default_factory=list)


def read_run(run_dir: Path) -> RunFiles:
    run = RunFiles(name=run_dir.resolve().name)
    run.summary = _json(run_dir / "summary.json", run.problems)
    run.manifest = _json(run_dir / "manifest.json", run.problems)
    run.memory = list(_lines(run_dir / "memory.jsonl", run.problems))
    by_type = {"step": run.steps, "eval": run.evals, "mining": run.mining}
    for line in _lines(run_dir / "metrics.jsonl", run.problems):
        by_type.get(str(line.get("type")), []).append(line)
    run.incidents = list(_incidents(run_dir, run.summary))
    run.config = _config(run_dir / "run.toml")
    return run


def _incidents(run_dir: Path, summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for listed in summary.get("incidents") or ():
        if isinstance(listed, Mapping):
            number, told = str(listed.get("id")), {}
            if number.isdigit():  # what is damaged is listed all the same
                told = dict(_json(run_dir / "incidents" / number / "incident.json", []))
            yield {**told, **listed}


def _json(path: Path, problems: list[str]) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        problems.append(f"{path.name} could not be read: {error}")
        return {}
    return value if isinstance(value, dict) else {}


def _lines(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Whole lines; of the kinds that come often, no more than `MOST_LINES`, evenly spread."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        often = sum(1 for line in file if _comes_often(line))
        stride = max(1, -(-often // MOST_LINES))
        file.seek(0)
        seen = torn = 0
        for line in file:
            if _comes_often(line):
                seen += 1
                if (seen - 1) % stride and seen != often:
                    continue
            try:
                value = json.loads(line)
            except ValueError:
                torn += 1
                continue
            if isinstance(value, dict):
                yield value
        if torn:
            problems.append(f"{path.name}: {torn} line(s) could not be read")


def _comes_often(line: bytes) -> bool:
    return any(mark in line for mark in OFTEN)


def _config(path: Path) -> list[tuple[str, str, str]]:
    """run.toml as written: each value on one line, its origin in the comment behind it."""
    if not path.is_file():
        return []
    section, rows = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        text, _, origin = line.rpartition("  # ")
        if header := _HEADER.fullmatch(line.strip()):
            section = header[1] + "."
        elif " = " in text and not text.startswith("#"):
            key, _, value = text.partition(" = ")
            rows.append((section + key.strip(), value.strip(), origin.strip()))
    return rows
