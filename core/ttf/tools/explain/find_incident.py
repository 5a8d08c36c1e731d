"""Finds an incident by its folder, one of its files, or its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ttf.errors import ArtifactDamaged, DataMissing
from ttf.incidents.facts import signal_name
from ttf.rundir import documents
from ttf.rundir.confined import read_json
from ttf.rundir.incident_files import INCIDENT, incident_folders
from ttf.rundir.typed_json import typed
from ttf.text.numbers import duration, moment
from ttf.text.shell import quoted
from ttf.text.terminal import one_line


@dataclass(frozen=True, kw_only=True)
class Incident:
    folder: Path
    document: documents.Incident  # from incident.json
    others: int = 0  # the number of other incidents, if a run was given

    @property
    def name(self) -> str:
        return self.document["class"]


def find(path: Path) -> Incident:
    """Raises DataMissing."""
    if (path / INCIDENT).is_file():
        return _read(path, path)
    if path.is_file() and (path.parent / INCIDENT).is_file():
        return _read(path.parent, path.parent)  # incident.json, incident.md, ... of it
    below = chain(incident_folders(path / "incidents"), incident_folders(path))
    numbered = sorted(
        (folder for folder in below if (folder / INCIDENT).is_file()), key=lambda p: int(p.name)
    )
    if numbered:
        return _read(numbered[-1], path, others=len(numbered) - 1)
    raise _not_found(path)


def _not_found(path: Path) -> DataMissing:
    if not path.exists():
        return DataMissing(
            f"{path} does not exist.",
            hint=(
                "Give the name of a class (ttf explain lists them), or the folder of an "
                "incident, for example runs/run-001/incidents/001."
            ),
        )
    if (path / "run.toml").is_file():
        target = quoted(path)
        return DataMissing(
            f"The run {path} has no incidents: none of its processes crashed.",
            hint=f"To see the state of the run: ttf monitor {target}",
        )
    return DataMissing(
        f"{path} is not the folder of an incident: it has no {INCIDENT}.",
        hint="Give the folder of an incident, for example runs/run-001/incidents/001.",
    )


def _read(folder: Path, inside: Path, others: int = 0) -> Incident:
    try:
        document = typed(read_json(folder / INCIDENT, inside), documents.Incident)
    except (OSError, ArtifactDamaged) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataMissing(
            f"{folder / INCIDENT} cannot be read ({reason}).",
            hint=f"Try {folder / 'incident.md'}, which has the same content as text.",
        ) from error
    if "class" not in document:
        raise DataMissing(f"{folder / INCIDENT} is not a valid incident: it has no class.")
    return Incident(folder=folder, document=document, others=others)


def markdown(incident: Incident) -> str:
    """The incident, shorter than incident.md."""
    document = incident.document
    parts = [f"# Incident {incident.folder.name}: {one_line(incident.name)}"]
    parts.append(one_line(document.get("explanation") or "It has no explanation."))
    if facts := ", ".join(_facts(document)):
        parts.append(f"{facts}.")
    if lines := [*_evidence(document)]:
        parts.append("## Evidence\n" + "\n".join(lines))
    if lines := [*_remedies(document)]:
        parts.append("## How to avoid it here\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _facts(document: documents.Incident) -> Iterator[str]:
    if document.get("process"):
        yield f"Process: {one_line(document['process'])}"
    if signum := document.get("signal"):
        yield f"ended by {signal_name(signum)}"
    elif document.get("exit_code") is not None:
        yield f"ended with exit code {document['exit_code']}"
    if "time" in document:
        yield moment(document["time"])
    if phase := document.get("phase"):
        yield f"in {one_line(phase)}, after step {document.get('step')}"
    if (micro := document.get("micro_batch")) is not None:
        yield f"in micro-batch {micro} of {document.get('micro_batches')} of its step"
    if (batch := document.get("batch_of_epoch")) is not None:
        yield f"batch {batch} of epoch {document.get('epoch')}"
    if (age := document.get("age_s")) is not None:
        yield f"{duration(age)} after its start"
    if (mined := document.get("since_mining_s")) is not None:
        yield f"{duration(max(0.0, mined))} after a mining"
    if document.get("lost_steps") is not None:
        yield f"{document['lost_steps']} steps to redo"


def _evidence(document: documents.Incident) -> Iterator[str]:
    for line in document.get("evidence", ()):
        yield f"- **{one_line(line.get('source', '?'))}**: {one_line(line.get('text', '?'))}"


def _remedies(document: documents.Incident) -> Iterator[str]:
    for remedy in document.get("remedies", ()):
        text = one_line(remedy.get("text", "?"))
        yield f"- `{text}`" if remedy.get("set") else f"- {text}"
