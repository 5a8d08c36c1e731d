"""Reproducers: plain scripts made only from an incident's class, the settings and the shapes.

A script is one of `scripts/` with the settings of the run. If a class needs the data or `ttf`, a
note says why there is no script.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.rundir.documents import FiledIncident
from ttf.text.terminal import one_line
from ttf.tools.report.bundle import _settings as settings
from ttf.tools.report.page import RunFiles

MOST: Final = 6
_SCRIPTS: Final = Path(__file__).parent / "scripts"
_BEGIN: Final = "# --- settings: what the run had ---\n"
_END: Final = "# --- end of the settings ---\n"

NATIVE: Final = (
    "segfault",
    "abort",
    "heap-corruption",
    "cxx-exception",
    "illegal-instruction",
    "device-lost",
    "hang",
    "vanished",
    "unknown",
)
MEMORY: Final = ("oom-kill", "memory-limit", "alloc-failure")
FILES: Final = ("bus-error", "data-changed")
_NO_SCRIPT: Final[Mapping[str, str]] = {
    "killed": "the signal came from outside the program, so there is nothing to reproduce.",
    "cpu-limit": "to reproduce it, run any long computation with a limit of processor time (ulimit -t).",
    "disk-full": "to reproduce it, the disk must be equally full; see df -h.",
    "non-finite": "the cause is in the rows that the incident names, and a bundle contains no data.",
    "rendezvous-failed": "the cause is in the other processes of the training, or in their network.",
    "network-partition": "the cause is in the network between the machines.",
    "store-lost": "the cause is in the process with rank 0, or in its launcher.",
    "wrong-interface": "the cause is in the network interfaces of this machine.",
    "clock-skew": "the cause is in the clocks of the machines.",
    "ranks-disagree": "the cause is a difference between the machines, which the incident names.",
    "straggler": "the cause is in the load of one machine; see its stacks in the incident.",
    "peer-lost": "the cause is in another process of the training; see the incidents of all ranks.",
    "python-error": "the traceback in the incident shows the line; to reproduce it, the data is needed.",
}


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    incident: str
    cause: str
    name: str = ""
    text: str = ""
    note: str = ""  # what the script does, or why there is none


def reproducers(run: RunFiles) -> list[Reproducer]:
    """One for the last incident of each class and place; at most `MOST`."""
    last: dict[tuple[str, ...], FiledIncident] = {}
    for found in run.incidents:
        key = (str(found.get("class")), str(found.get("process")), str(found.get("phase")))
        last.pop(key, None)
        last[key] = found
    return [reproducer(run, found) for found in list(last.values())[-MOST:]]


def reproducer(run: RunFiles, found: FiledIncident) -> Reproducer:
    number, cause = str(found.get("id")), str(found.get("class"))
    together = settings.value(run, "miner.isolation", "process") == "none"
    mined = found.get("process") == "miner" or (found.get("phase") == "mining" and together)
    if cause == "omp-duplicate":
        return _build(run, found, "openmp", settings.openmp(run, found))
    if cause in FILES:
        return _build(run, found, "mapped_file", {"BYTES": 1 << 20})
    if cause in MEMORY:
        return _build(run, found, "memory", settings.memory(run, found))
    if cause not in NATIVE:
        note = _NO_SCRIPT.get(cause, "there is no script for this class.")
        return Reproducer(incident=number, cause=cause, note=f"no script: {note}")
    if run.guarded:
        note = "the code of the command is unknown; run the command again under ttf guard."
        return Reproducer(incident=number, cause=cause, note=f"no script: {note}")
    if mined and settings.miner(run) not in settings.LIBRARIES:
        note = (
            f"the miner is a plugin of another distribution ({settings.miner(run)}); see 'To "
            "use ttf' below."
        )
        return Reproducer(incident=number, cause=cause, note=f"no script: {note}")
    make: Callable[..., dict[str, Any]] = settings.mining if mined else settings.training
    return _build(run, found, "mining" if mined else "training", make(run, found))


def _build(
    run: RunFiles, found: FiledIncident, script: str, values: Mapping[str, Any]
) -> Reproducer:
    number, cause = str(found.get("id")), str(found.get("class"))
    source = (_SCRIPTS / f"{script}.py").read_text(encoding="utf-8")
    summary = source.split('"""', 2)[1].strip()
    return Reproducer(
        incident=number,
        cause=cause,
        name=f"{number}-{cause}.py",
        text="".join(_header(run, number, cause, values)) + filled(source, values),
        note=" ".join(summary.partition("\n\n")[0].split()),
    )


def _header(run: RunFiles, number: str, cause: str, values: Mapping[str, Any]) -> Iterable[str]:
    # Texts of the run's files: none may end its line, or what follows would be code.
    return (f"# {one_line(line)}\n" for line in _about(run, number, cause, values))


def _about(run: RunFiles, number: str, cause: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Incident {number} ({cause}), made only from its class and the settings and shapes "
        "of the run."
    )
    yield "This script needs neither ttf nor the data of the run."
    machine = run.manifest.get("platform")
    python = run.manifest.get("python")
    yield f"The run: Python {python or 'unknown'} on {machine or 'an unknown machine'}"
    pins = settings.pins(run, values)
    if pins:
        yield f"pip install {' '.join(pins)}"
    for note in settings.guessed(run):
        yield f"Unknown, so this value is assumed: {note}"


def filled(source: str, values: Mapping[str, Any]) -> str:
    """The script with these values; every name must be a setting of the script."""
    before, begin, rest = source.partition(_BEGIN)
    block, end, after = rest.partition(_END)
    assert begin and end, "a script without settings"
    lines = []
    left = dict(values)
    for line in block.splitlines(keepends=True):
        name = line.partition(":")[0].strip()
        if name in left:
            head = line.partition(" = ")[0]
            line = f"{head} = {_literal(left.pop(name))}\n"
        lines.append(line)
    assert not left, f"the script has no setting named {sorted(left)}"
    return before + begin + "".join(lines) + end + after


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str | list) else repr(value)
