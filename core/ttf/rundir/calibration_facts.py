"""`model/calibration.json`: whether a run's model is calibrated, how, and what it gains."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypedDict

from ttf.rundir.confined import found_json
from ttf.rundir.typed_json import typed

CALIBRATION: Final = "calibration.json"


class CalibrationSummary(TypedDict, total=False):
    """In summary.json."""

    on: bool
    why: str  # Why it is not on.
    a: float  # A score is lowered by `a` times the mean similarity to the nearest queries.
    gain: float  # Of the discounted gain, on held-out training pairs: docs/calibration.md.
    held_out: int  # The number of those pairs.


class CalibrationFacts(CalibrationSummary, total=False):
    """In model/calibration.json; values for each document are in `model/calibration/<bank>/`."""

    format: int
    weights_sha256: str  # It is not used with other weights.
    neighbours: int
    sample: int  # Training queries that the documents were compared with.
    bank: str  # The name of the folder for the bank that `a` was chosen with.
    metrics: dict[str, float]  # Of the validation pairs, with calibration; only where it is on.


def calibration_facts(model: Path, weights_sha256: str | None) -> CalibrationFacts:
    """Of the folder `model/` of a run; empty if there are none, or none of these
    weights, or they do not say whether it is on."""
    facts = typed(found_json(model / CALIBRATION, model.parent), CalibrationFacts)
    same = weights_sha256 is not None and facts.get("weights_sha256") == weights_sha256
    return facts if same and "on" in facts else {}


def shown(facts: CalibrationFacts) -> CalibrationSummary:
    return typed(
        {key: value for key, value in facts.items() if key in CalibrationSummary.__annotations__},
        CalibrationSummary,
    )
