"""An explained death as a folder of evidence, and as the event that is decided about."""

from __future__ import annotations

from collections.abc import Callable

from ttf.errors import StorageError
from ttf.incidents.death import Death, Finding
from ttf.rundir.flight_record import Flight
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.events import Died, Life, now


def lived(flight: Flight | None) -> Life | None:
    if flight is None or flight.began_s is None:
        return None
    steps, seconds = flight.step - flight.began_step, flight.monotonic_s - flight.began_s
    return Life(steps=max(0, steps), seconds=max(0.0, seconds))


def written(folder: RunFolder, death: Death, finding: Finding, say: Callable[[str], None]) -> Died:
    """Writes the incident; `say` gets why that was not possible."""
    from ttf.rundir.verified_folders import newest_step

    checkpoint, step = newest_step(folder.checkpoints), death.step or 0
    return Died(
        now=now(),
        incident=_incident(folder, death, finding, checkpoint, step, say),
        name=finding.name,
        certain=finding.at_once,
        step=step,
        phase=death.phase or "start",
        checkpoint_step=checkpoint,
        remedies=finding.remedies,
        retry=finding.ends_with is None,
        lived=lived(death.flight),
        plugin=None if death.flight is None else death.flight.plugin,
        kept_work=0 if death.flight is None else death.flight.kept_work,
    )


def _incident(
    folder: RunFolder,
    death: Death,
    finding: Finding,
    checkpoint: int,
    step: int,
    say: Callable[[str], None],
) -> str:
    from ttf.incidents.writing import write_incident

    try:
        return write_incident(
            folder.incidents,
            death,
            finding,
            applied=None,  # that is decided next
            lost_steps=max(0, step - max(0, checkpoint)),
            checkpoint_step=checkpoint,
        )
    except StorageError as error:
        say(f"ttf could not write the incident: {error}")
        return "(not written)"
