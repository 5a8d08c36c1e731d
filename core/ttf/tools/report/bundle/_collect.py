"""Which files go into a bundle, and how much of each; never a row of the data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ttf.errors import EntryRefused
from ttf.rundir.confined import end_of
from ttf.rundir.incident_files import incident_folders, read_incident
from ttf.rundir.run_record import RunRecord

WHOLE: Final = (
    "run.toml",
    "summary.json",
    "manifest.json",
    "environment.json",
    "supervision.json",
    "stderr.txt",
    "faulthandler.txt",
)
# Only the end is taken: the report has the curves.
ENDS: Final = ("log.txt", "metrics.jsonl", "memory.jsonl")
INCIDENT: Final = (
    "incident.json",
    "incident.md",
    "applied.json",
    "flight.json",
    "memory.csv",
    "stderr.txt",
    "stdout.txt",
    "faulthandler.txt",
)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    incidents: int  # the last ones, and the first of every class
    file_bytes: int  # longer files: only the end


@dataclass(frozen=True, kw_only=True)
class Taken:
    name: str
    text: str
    left_out: int = 0  # bytes before the taken part


def collect(run_dir: Path, bounds: Bounds, attached: Sequence[Path] = ()) -> list[Taken]:
    """`attached`: text files from anywhere, which become `attached/NAME`."""
    found = [
        taken for name in (*WHOLE, *ENDS) for taken in _take(run_dir / name, run_dir, name, bounds)
    ]
    if (flight := RunRecord(run_dir).flight()) is not None:
        found.append(Taken(name="flight.json", text=json.dumps(asdict(flight), indent=2) + "\n"))
    for folder in chosen_incidents(run_dir / "incidents", bounds.incidents):
        for name in INCIDENT:
            found += _take(folder / name, run_dir, f"incidents/{folder.name}/{name}", bounds)
    for path in attached:
        found += _take(path, path.parent, f"attached/{path.name}", bounds)
    return found


def chosen_incidents(folder: Path, most: int) -> list[Path]:
    """The last `most`, and the first of each class, which often causes the others."""
    every = incident_folders(folder)
    first: dict[str, Path] = {}
    for path in every:
        first.setdefault(read_incident(path)["class"], path)
    chosen = {*every[-most:], *list(first.values())[:most]} if most else set()
    return [path for path in every if path in chosen]


def _take(path: Path, run_dir: Path, name: str, bounds: Bounds) -> Iterator[Taken]:
    try:
        data, start = end_of(path, run_dir, bounds.file_bytes)
    except FileNotFoundError:
        return
    except EntryRefused as error:
        yield Taken(name=name, text=f"(was not read: {error})\n")
        return
    except OSError as error:
        yield Taken(name=name, text=f"(could not be read: {error.strerror})\n")
        return
    if start:  # a line that is cut may hide half a secret from who looks for it
        start += data.find(b"\n") + 1
        data = data[data.find(b"\n") + 1 :]
    yield Taken(name=name, text=data.decode(errors="replace"), left_out=start)
