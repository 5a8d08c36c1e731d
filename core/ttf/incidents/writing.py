"""Writes the folder of an incident: a page for people, JSON for scripts, and the raw evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ttf.errors import StorageError, storage_error
from ttf.incidents.death import Death, Finding, Place, Remedy
from ttf.incidents.facts import signal_name
from ttf.rundir import durable
from ttf.rundir.documents import AppliedRemedy, Incident, NativeFrameDocument
from ttf.rundir.incident_files import APPLIED, INCIDENT, NUMBER
from ttf.text.numbers import duration, moment, size
from ttf.text.secrets import Secrets

AREA: Final = "incident"
_CURVE_S: Final = 600.0


def write_incident(
    folder: Path,
    death: Death,
    finding: Finding,
    *,
    applied: str | None,
    lost_steps: int | None,
    checkpoint_step: int | None,
    secrets: Secrets | None = None,
) -> str:
    """Makes `folder`/NNN and returns NNN, unique even with concurrent writers.

    `secrets`: what is struck out; None: those of this process. `applied` is the text of the remedy that is now in force; `note_remedy` adds it later. Raises
    StorageError if the disk is full: the files written so far stay, `details["incident"]` of the
    error is the id, and the supervisor should report it and continue.
    """
    number, path = _take_number(folder)
    secrets = secrets or Secrets()
    page = incident_page(number, death, finding, lost_steps, checkpoint_step)
    files = {
        INCIDENT: _json(secrets.value(document(death, finding, lost_steps))),
        "incident.md": secrets.bytes(page.encode(errors="replace")),
        "stderr.txt": secrets.bytes(death.raw_stderr or death.stderr.encode(errors="replace")),
        **_stdout(death, secrets),
        **_native(death, secrets),
        "faulthandler.txt": secrets.bytes(death.faulthandler.encode(errors="replace")),
        "flight.json": _json(None if death.flight is None else asdict(death.flight)),
        "memory.csv": _memory_csv(death).encode(),
    }
    try:
        for name, data in files.items():
            durable.write_atomically(path / name, data, AREA)
        if applied is not None:
            note_remedy(folder, number, applied)
    except StorageError as error:
        error.details["incident"] = number
        raise
    return number


def _stdout(death: Death, secrets: Secrets) -> dict[str, bytes]:
    if not death.stdout:
        return {}
    return {"stdout.txt": secrets.bytes(death.stdout.encode(errors="replace"))}


def _native(death: Death, secrets: Secrets) -> dict[str, bytes]:
    if death.backtrace is None or not death.backtrace.text:
        return {}
    return {"native.txt": secrets.bytes(death.backtrace.text.encode(errors="replace") + b"\n")}


def note_remedy(folder: Path, number: str, text: str) -> None:
    """Records the remedy that this incident caused. Raises StorageError."""
    durable.write_json(folder / number / APPLIED, AppliedRemedy(remedy=text), AREA)


def document(death: Death, finding: Finding, lost_steps: int | None) -> Incident:
    """Returns the content of incident.json."""
    place = Place.of(death.flight)
    among: Incident = {}
    if death.rank is not None:
        among["rank"] = death.rank
    if death.rank is not None or death.host:
        among["host"] = death.host
    return {
        **among,
        "class": finding.name,
        "certain": finding.certain,
        "process": death.process,
        "signal": death.signal,
        "exit_code": death.exit_code,
        "phase": death.phase,
        "step": death.step,
        "evidence": [{"source": e.source, "text": e.text} for e in finding.evidence],
        "explanation": finding.explanation,
        "remedies": [{"text": r.text, "set": dict(r.set)} for r in finding.remedies],
        "lost_steps": lost_steps,
        "time": death.time,
        "hidden": death.hidden,
        "asked": death.killed_by_us == "stop",
        "epoch": place.epoch,
        "batch_of_epoch": place.batch_of_epoch,
        "micro_batch": place.micro_batch,
        "micro_batches": place.micro_batches,
        "boundary_share": _rounded(place.boundary_share),
        "age_s": _rounded(death.age_s),
        "trained_s": _rounded(place.trained_s),
        "since_mining_s": _rounded(place.since_mining_s),
        "since_mining_steps": place.since_mining_steps,
        "mined_for_steps": place.mined_for_steps,
        # The last sample may come after the death.
        "memory_bytes": max((point.held for point in death.memory[-2:]), default=None),
        "device_allocated_bytes": None if death.flight is None else death.flight.allocated,
        "device_cached_bytes": None if death.flight is None else death.flight.cached,
        "machine_available_bytes": _available(death),
        "native_frames": _frames(death),
    }


def _available(death: Death) -> int | None:
    # 0: the system does not tell.
    return (death.memory[-1].machine.available or None) if death.memory else None


def _frames(death: Death) -> list[NativeFrameDocument] | None:
    if death.backtrace is None:
        return None
    return [{"function": f.function, "library": f.library} for f in death.backtrace.frames]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def incident_page(
    number: str,
    death: Death,
    finding: Finding,
    lost_steps: int | None,
    checkpoint_step: int | None,
) -> str:
    """Returns the content of incident.md."""
    when = moment(death.time)
    parts = [
        f"# Incident {number}: {finding.name}",
        finding.explanation,
        "\n".join(_facts(death, when, lost_steps, checkpoint_step)),
        "## Evidence",
        "\n".join(f"- **{e.source}**: {_quoted(e.text)}" for e in finding.evidence),
        "## How to avoid this incident",
        "\n".join(_ways_out(finding)),
        f"More: `ttf explain {finding.name}`",
    ]
    return "\n\n".join(parts) + "\n"


def _facts(
    death: Death, when: str, lost_steps: int | None, checkpoint_step: int | None
) -> Iterator[str]:
    ending = f"exit code {death.exit_code}"
    if death.signal is not None:
        ending = f"{signal_name(death.signal)} (signal {death.signal})"
    yield "| | |"
    yield "|---|---|"
    among = "" if death.rank is None else f" of rank {death.rank} on {death.host}"
    yield f"| process | {death.process}{among} (pid {death.pid}) |"
    yield f"| ended | {when}, {ending} |"
    if death.command_ended:
        yield f"| the command | {death.command_ended} |"
    if death.flight is not None:
        yield f"| where | phase {death.phase}, {death.step} steps done |"
        yield from _place(Place.of(death.flight))
    if death.flight is not None and death.flight.allocated is not None:
        held = f"{size(death.flight.allocated)} allocated"
        if death.flight.cached is not None:
            held += f", {size(death.flight.cached)} taken from it"
        yield f"| memory of the device | {held} |"
    if (available := _available(death)) is not None:
        yield f"| memory the machine had left | {size(available)} |"
    if death.age_s is not None:
        yield f"| age of the process | {duration(death.age_s)} |"
    if checkpoint_step is not None and checkpoint_step >= 0:
        yield f"| newest checkpoint | step {checkpoint_step} |"
    elif death.process == "trainer":
        yield "| newest checkpoint | none yet |"
    if lost_steps is not None:
        yield f"| steps to redo | {lost_steps} |"


def _place(place: Place) -> Iterator[str]:
    if place.micro_batch is not None:
        where = f"micro-batch {place.micro_batch} of {place.micro_batches}"
        if place.batch_of_epoch is not None:
            where += f", batch {place.batch_of_epoch:,} of epoch {place.epoch}"
        yield f"| batch | {where} |"
    if place.since_mining_s is not None:
        ago = duration(max(0.0, place.since_mining_s))
        yield f"| since the last mining | {ago}, {place.since_mining_steps} steps |"


def _ways_out(finding: Finding) -> Iterator[str]:
    if not finding.remedies:
        yield "There is no setting that avoids this."
    for remedy in finding.remedies:
        yield f"- {_remedy_line(remedy)}"
    if finding.remedies and not finding.certain:
        ours = any(remedy.set for remedy in finding.remedies)
        yield ""
        yield (
            "The evidence shows what happened, but not the cause, so these changes may not "
            f"help{'. ttf first restarts the run unchanged' if ours else ''}."
        )


def _remedy_line(remedy: Remedy) -> str:
    if not remedy.set:
        return remedy.text
    return f"`{remedy.text}` - {remedy.deviation or 'the results stay the same'}"


def _quoted(text: str) -> str:
    return f"`{text}`" if "`" not in text else text


def _memory_csv(death: Death) -> str:
    # Only the last ten minutes.
    end = death.memory[-1].time if death.memory else 0.0
    rows = [
        f"{p.time:.3f},{p.step},{p.anon},{p.shared},{p.file},{p.limit},{p.phase or ''},"
        + ",".join("" if n is None else str(n) for n in (*p.device, *p.machine))
        for p in death.memory
        if p.time >= end - _CURVE_S
    ]
    names = ("device_allocated", "device_cached", "available", "swap_used", "swap_free")
    return "\n".join([",".join(["time,step,anon,shared,file,limit,phase", *names]), *rows]) + "\n"


def _json(value: Any) -> bytes:
    return json.dumps(durable.finite(value), indent=2, default=str).encode() + b"\n"


def _take_number(folder: Path) -> tuple[str, Path]:
    try:
        folder.mkdir(exist_ok=True)  # not its parents: a run folder that is gone stays gone
        taken = [int(p.name) for p in folder.iterdir() if NUMBER.fullmatch(p.name)]
        number = max(taken, default=0) + 1
        while True:
            path = folder / f"{number:03d}"
            try:
                durable.make_dir(path, AREA)
            except FileExistsError:
                number += 1
            else:
                durable.fsync_dir(folder, AREA)
                return path.name, path
    except OSError as error:
        raise storage_error(error, str(folder)) from error
