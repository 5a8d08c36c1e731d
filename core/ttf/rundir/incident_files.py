"""The incidents of a run from their folders; damaged ones are listed too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttf.rundir.documents import AppliedRemedy, FiledIncident, Incident, ListedIncident
from ttf.rundir.typed_json import read_typed

INCIDENT: Final = "incident.json"
APPLIED: Final = "applied.json"


def incident_folders(incidents: Path) -> list[Path]:
    try:
        numbered = [path for path in incidents.iterdir() if path.name.isdigit()]
    except OSError:
        return []
    return sorted(numbered, key=lambda path: int(path.name))


def read_incident(folder: Path) -> FiledIncident:
    # A folder without a readable incident.json is 'unknown': the disk was full, or the writer died;
    # but something happened.
    found = read_typed(folder / INCIDENT, Incident)
    applied = read_typed(folder / APPLIED, AppliedRemedy)
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
