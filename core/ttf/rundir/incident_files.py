"""The incidents of a run from their folders; damaged ones are listed too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ttf.errors import EntryRefused
from ttf.rundir.confined import found_json, names_in
from ttf.rundir.documents import AppliedRemedy, FiledIncident, Incident, ListedIncident
from ttf.rundir.typed_json import typed

INCIDENT: Final = "incident.json"
APPLIED: Final = "applied.json"
NUMBER: Final = re.compile("[0-9]{1,9}")


def incident_folders(incidents: Path) -> list[Path]:
    """In order. `incidents` is the folder of that name in a run, a guard's or a study's folder."""
    try:
        numbered = filter(NUMBER.fullmatch, names_in(incidents, incidents.parent))
    except (OSError, EntryRefused):
        return []
    return [incidents / name for name in sorted(numbered, key=int)]


def read_incident(folder: Path) -> FiledIncident:
    # A folder without a readable incident.json is 'unknown': the disk was full, or the writer died;
    # but something happened.
    run = folder.parents[1]
    found = typed(found_json(folder / INCIDENT, run), Incident)
    applied = typed(found_json(folder / APPLIED, run), AppliedRemedy)
    known: FiledIncident = {**unknown(folder.name), **found}
    known["id"] = folder.name  # whatever a damaged file calls itself
    known["remedy"] = applied.get("remedy")
    return known


def unknown(number: str) -> FiledIncident:
    return {"id": number, "class": "unknown", "process": "unknown", "remedy": None}


def list_incidents(incidents: Path) -> list[ListedIncident]:
    """As in summary.json."""
    return [listed(read_incident(folder)) for folder in incident_folders(incidents)]


def listed(found: FiledIncident) -> ListedIncident:
    return {
        "id": found["id"],
        "class": found["class"],
        "process": found["process"],
        "remedy": found["remedy"],
    }
