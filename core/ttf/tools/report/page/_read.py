"""A run's files as the page needs them; what is missing or torn is left out and counted."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.incidents.writing import list_incidents
from ttf.rundir.checkpoint_files import newest_first, step_of
from ttf.rundir.flight_record import Flight, read_flight
from ttf.tools.report.page._spent import Spent
from ttf.tools.report.page._spread import Spread

MOST_LINES: Final = 4000
"""Lines of a kind that are kept; of longer files every n-th."""
MARKS: Final = ("run.toml", "summary.json", "environment.json", "manifest.json", "metrics.jsonl")
"""A folder with one of these can be reported on."""

_LONGEST_LINE: Final = 1 << 20
_STDERR_BYTES: Final = 2000
_HEADER: Final = re.compile(r"\[{1,2}([^\[\]]+)\]{1,2}")


@dataclass(kw_only=True)
class RunFiles:
    """All that a page is made of."""

    name: str
    summary: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """What it ran on: manifest.json of a run, environment.json of a guarded command."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    evals: list[dict[str, Any]] = field(default_factory=list)
    mining: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    """As summary.json lists them, or the folder, with what incident.json says beside that."""
    config: list[tuple[str, str, str]] = field(default_factory=list)
    """(key.path, value, origin)"""
    flight: Flight | None = None
    checkpoint: int = -1
    """Step of the newest checkpoint there is; whether it is intact is another matter."""
    owner: int | None = None
    """The living process that holds the folder."""
    problems: list[str] = field(default_factory=list)

    @property
    def guarded(self) -> bool:
        """Of a command that `ttf guard` watched over: nothing of its inside is known."""
        return not self.config and not self.steps and "steps" not in self.summary

    def setting(self, key: str) -> tuple[str, str]:
        """(value, origin) of a configuration key; empty where it is not there."""
        found = next((row for row in self.config if row[0] == key), ("", "", ""))
        return found[1].strip('"'), found[2]


def is_reportable(folder: Path) -> bool:
    return any((folder / name).is_file() for name in MARKS) or (folder / "incidents").is_dir()


def read_run(run_dir: Path) -> RunFiles:
    run = RunFiles(name=run_dir.resolve().name)
    run.summary = _json(run_dir / "summary.json", run.problems)
    run.manifest = _json(run_dir / "manifest.json", run.problems) or _json(
        run_dir / "environment.json", run.problems
    )
    _read_metrics(run_dir / "metrics.jsonl", run)
    run.memory = list(_spread_lines(run_dir / "memory.jsonl", run.problems))
    run.incidents = list(_incidents(run_dir, run.summary))
    run.config = _config(run_dir / "run.toml", run.problems)
    with contextlib.suppress(OSError):  # nobody flies, or it is not ours to read
        run.flight = read_flight(run_dir / "flight.bin")
    run.checkpoint = max(map(step_of, newest_first(run_dir / "checkpoints")[:1]), default=-1)
    run.owner = _owner(run_dir / ".owner")
    return run


def _owner(path: Path) -> int | None:
    """The process that has claimed the folder, if it lives."""
    try:
        pid = int(path.read_text())
        os.kill(pid, 0)
    except PermissionError:  # somebody else's, and alive
        return pid
    except (OSError, ValueError, OverflowError):
        return None
    return pid


# --- incidents --------------------------------------------------------------------------------


def _incidents(run_dir: Path, summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is damaged is listed all the same."""
    folder = run_dir / "incidents"
    told = summary.get("incidents")
    listed: dict[str, Mapping[str, Any]] = {}
    for found in told if isinstance(told, list) else ():
        if isinstance(found, Mapping):
            listed[str(found.get("id"))] = found
    with contextlib.suppress(OSError):
        for entry in list_incidents(folder):
            listed.setdefault(str(entry["id"]), entry)
    for number in sorted(listed, key=lambda n: (not n.isdigit(), int(n) if n.isdigit() else 0)):
        about = folder / number
        whole = dict(_json(about / "incident.json", [])) if number.isdigit() else {}
        words = _tail(about / "stderr.txt", _STDERR_BYTES) if number.isdigit() else ""
        yield {**whole, **listed[number], "stderr": words}


def _tail(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            text = file.read(most).decode(errors="replace")
    except OSError:
        return ""
    return text if size <= most else text.partition("\n")[2]


# --- files of lines -----------------------------------------------------------------------------


def _read_metrics(path: Path, run: RunFiles) -> None:
    """Every line counts for the sums; of those that come often only some are kept."""
    kinds = ("step", "eval", "mining", "checkpoint")
    kept = {kind: Spread[dict[str, Any]](MOST_LINES) for kind in kinds}
    torn = 0
    for raw in _raw_lines(path, run.problems):
        line = _parsed(raw)
        if line is None:
            torn += 1
            continue
        kind = str(line.get("type"))
        run.spent.add(kind, line)
        if kind in kept:
            kept[kind].add(line)
    _note_torn(path, torn, run.problems)
    run.steps, run.evals, run.mining, run.checkpoints = (kept[kind].items for kind in kinds)


def _spread_lines(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    kept = Spread[bytes](MOST_LINES)
    for raw in _raw_lines(path, problems):
        kept.add(raw)
    found = [_parsed(raw) for raw in kept.items]
    yield from (line for line in found if line is not None)
    _note_torn(path, found.count(None), problems)


def _raw_lines(path: Path, problems: list[str]) -> Iterator[bytes]:
    """A file without line ends does not fill the memory."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.readline(_LONGEST_LINE), b"")
    except OSError as error:
        problems.append(f"{path.name} could not be read: {error.strerror}")


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _note_torn(path: Path, torn: int, problems: list[str]) -> None:
    if torn:
        problems.append(f"{path.name}: {torn} line(s) could not be read")


# --- whole files --------------------------------------------------------------------------------


def _json(path: Path, problems: list[str]) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} could not be read: {error}")
        return {}
    return value if isinstance(value, dict) else {}


def _config(path: Path, problems: list[str]) -> list[tuple[str, str, str]]:
    """run.toml as written: each value on one line, its origin in the comment behind it."""
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} could not be read: {error}")
        return []
    section, rows = "", []
    for line in lines:
        text, _, origin = line.rpartition("  # ")
        if header := _HEADER.fullmatch(line.strip()):
            section = header[1] + "."
        elif " = " in text and not text.startswith("#"):
            key, _, value = text.partition(" = ")
            rows.append((section + key.strip(), value.strip(), origin.strip()))
    return rows
