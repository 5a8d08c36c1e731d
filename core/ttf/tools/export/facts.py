"""`ExportFacts` as JSON, for the processes of an exporter and for export.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ttf.contracts import TowerShape
from ttf.hookspecs import ExportFacts, TowerFacts


def to_json(facts: ExportFacts) -> dict[str, Any]:
    return asdict(facts)


def from_json(values: Mapping[str, Any]) -> ExportFacts:
    towers = {side: _tower(values[side]) for side in ("query", "document")}
    return ExportFacts(**{**values, **towers})


def _tower(values: Mapping[str, Any]) -> TowerFacts:
    return TowerFacts(
        name=values["name"], options=values["options"], shape=TowerShape(**values["shape"])
    )
