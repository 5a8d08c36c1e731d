"""report.html of a decision: what was tried, what came of it, and every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.rundir.outputs import write_output
from ttf.text import numbers
from ttf.text.progress.ending import gate_text
from ttf.text.secrets import Secrets
from ttf.tools.decision.record import Candidate, Decision
from ttf.tools.decision.words import outcome_text, story
from ttf.tools.report.page import CARDS, FILE, read_run, struck, values_of
from ttf.tools.report.render import render
from ttf.tools.runs.differences import cell, differences
from ttf.tools.runs.facts import read_facts

_TEMPLATE: Final = Path(__file__).with_name("decision.html")
_HEAD: Final = ("configuration", "outcome", "steps", "time", "incidents")


def write_page(folder: Path, out: Path | None = None) -> Path:
    """Writes the page, by default to `folder/report.html`, and returns its path. Raises StorageError
    and DataMissing."""
    path = folder / FILE if out is None else out
    write_output(path, page_of(Decision.read(folder)))
    return path


def page_of(decision: Decision) -> bytes:
    secrets = Secrets()
    values = {
        "title": decision.folder.resolve().name,
        "status": decision.status,
        "story": secrets.text(story(decision)),
        "head": _HEAD,
        "rows": [tuple(map(secrets.text, _row(decision, c))) for c in decision.candidates],
        "gates": [row for c in decision.candidates for row in _gates(decision, c)],
        "differ": _differences(decision, secrets),
        "runs": [
            (
                candidate.name,
                secrets.text(candidate.title),
                values_of(struck(read_run(decision.run_of(candidate)), secrets)),
            )
            for candidate in decision.candidates
            if decision.has_begun(candidate)
        ],
    }
    return render(_TEMPLATE, ({**values, "num_cards": num} for num in CARDS))


def _row(decision: Decision, candidate: Candidate) -> tuple[str, ...]:
    summary = decision.summary_of(candidate)
    steps, wall_s = summary.get("steps"), summary.get("wall_s")
    return (
        f"{candidate.name}: {candidate.file}",
        outcome_text(decision, candidate),
        "" if steps is None else f"{steps:,}",
        "" if not wall_s else numbers.duration(wall_s),
        str(len(summary.get("incidents") or ()) or ""),
    )


def _gates(decision: Decision, candidate: Candidate) -> Iterator[tuple[str, str, str]]:
    gates: list[Mapping[str, Any]] = [*(decision.summary_of(candidate).get("gates") or ())]
    for gate in gates:
        place, _, result = gate_text(gate).rpartition(": ")
        yield candidate.name, place.removeprefix("gate "), result


def _differences(decision: Decision, secrets: Secrets) -> dict[str, Any]:
    begun = [c for c in decision.candidates if decision.has_begun(c)]
    found = differences([read_facts(decision.run_of(c)) for c in begun])
    rows = [
        (d.key, *(str(secrets.entry(d.key, cell(value))) for value in d.values))
        for d in found
        if d.section == "configuration"
    ]
    return {"head": ("key", *(c.name for c in begun)), "rows": rows if len(begun) > 1 else []}
