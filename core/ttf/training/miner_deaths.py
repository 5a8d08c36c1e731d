"""A death of the miner's worker, recorded as an incident of the run."""

from __future__ import annotations

from dataclasses import replace

from ttf.errors import StorageError
from ttf.incidents.classify import classify
from ttf.incidents.death import Death
from ttf.incidents.writing import write_incident
from ttf.rundir.confined import found_json
from ttf.rundir.documents import Incident
from ttf.rundir.incident_files import INCIDENT
from ttf.rundir.typed_json import typed
from ttf.rundir.verified_folders import newest_first, step_of
from ttf.text.secrets import Secrets
from ttf.training.session import Session


def record_death(session: Session, death: Death, remedy: str) -> None:
    """Writes the incident, says it and tells the observers; the run goes on."""
    folder, say = session.folder, session.reporter.note
    death = replace(death, flight=session.link.flight.read())
    finding = classify(death)
    try:
        incident = write_incident(
            folder.incidents,
            death,
            finding,
            applied=remedy,
            lost_steps=0,
            checkpoint_step=next(map(step_of, newest_first(folder.checkpoints)), -1),
            secrets=Secrets(command=session.link.command),
        )
    except StorageError as error:
        say(f"The incident could not be written: {error}")
        return
    say(f"Incident {incident}, {finding.name}: {finding.explanation}")
    session.observers.ttf_incident(
        incident=typed(found_json(folder.incidents / incident / INCIDENT, folder.path), Incident)
    )
