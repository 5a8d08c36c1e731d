"""Reads the folder of a run or of a guarded command.

Nothing here raises for missing, torn or damaged files: these are left out, and counted if it
matters. Folders of older versions are read as well.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ttf.errors import ArtifactDamaged, EntryRefused
from ttf.rundir.confined import MOST_CONFIG_BYTES, found_json, parsed_line, raw_lines, read_inside
from ttf.rundir.documents import (
    METRICS_LINES,
    RUN_FORMAT,
    FiledIncident,
    Manifest,
    MemoryLine,
    MetricsLine,
    Summary,
)
from ttf.rundir.flight_record import Flight, read_flight
from ttf.rundir.incident_files import NUMBER, incident_folders, read_incident, unknown
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal, Sitting
from ttf.rundir.typed_json import typed
from ttf.rundir.verified_folders import newest_first, step_of

D = TypeVar("D")
_ORIGIN: Final = "  # "


class Setting(NamedTuple):
    """A line of run.toml."""

    key: str  # With its sections: 'tower.query.name'.
    text: str  # The value as written there.
    origin: str  # 'default', '--lr', 'auto: ...'.

    @property
    def value(self) -> Any:
        """None if the text is not TOML."""
        try:
            return tomllib.loads(f"v = {self.text}")["v"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return None


class RunRecord:
    """Reads the files again at every call."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.problems: list[str] = []  # Sentences about files that exist and could not be read.

    def _note(self, problem: str) -> None:
        # Once: a monitor reads the same file every second.
        if problem not in self.problems:
            self.problems.append(problem)

    # --- whole files --------------------------------------------------------------------------

    def summary(self) -> Summary:
        """Empty while the run goes on, and if it ended without a summary."""
        return self._document(self.folder.summary, Summary)

    def manifest(self) -> Manifest:
        """manifest.json of a run, environment.json of a guarded command."""
        found = self._document(self.folder.manifest, Manifest)
        found = found or self._document(self.folder.environment, Manifest)
        if found.get("format", RUN_FORMAT) > RUN_FORMAT:
            self._note(
                f"a later version of ttf wrote this folder (format {found['format']}, this version "
                f"reads {RUN_FORMAT}): some values may be missing or wrong"
            )
        return found

    def _document(self, path: Path, kind: type[D]) -> D:
        return typed(found_json(path, self.folder.path, self._note), kind)

    def settings(self) -> list[Setting]:
        """The settings of run.toml, one per line with its origin. Not for resuming a run: then the
        file must be complete and valid (`ttf.config.toml`)."""
        try:
            raw = read_inside(self.folder.config, self.folder.path, MOST_CONFIG_BYTES)
            text = raw.decode()
        except FileNotFoundError:
            return []
        except (OSError, ValueError, ArtifactDamaged) as error:
            self._note(f"{self.folder.config.name} could not be read: {error}")
            return []
        return list(_settings(text.splitlines()))

    def total_steps(self) -> int | None:
        """Fallback if the trainer recorded no total (an older version, or no supervisor): computed
        from the settled configuration, as that version counted."""
        train = {setting.key: setting.value for setting in self.settings()}

        def count(name: str) -> int:
            value = train.get(f"train.{name}")
            return value if isinstance(value, int) else 0

        if steps := count("steps"):
            return steps
        samples = count("batch_size") * count("accumulate")
        pairs = self.manifest().get("data", {}).get("train_pairs", 0)
        return count("epochs") * (pairs // samples) or None if samples else None

    def sittings(self) -> tuple[Sitting, ...]:
        """The starts of the run by a person or a script; none for folders of earlier versions."""
        return Journal.read(self.folder.supervision).sittings

    def flight(self) -> Flight | None:
        """The trainer's last record; None if there is none, or it cannot be read."""
        with contextlib.suppress(OSError, ArtifactDamaged):
            return read_flight(self.folder.flight)
        return None

    # --- files of lines -----------------------------------------------------------------------

    def metrics(self) -> Iterator[MetricsLine]:
        """In file order; each step once, because a run that goes back to a checkpoint drops later
        lines."""
        return metrics_of(self._lines(self.folder.metrics))

    def memory(self) -> Iterator[MemoryLine]:
        """Of all processes: after a restart, `step` is smaller than before."""
        return memory_of(self._lines(self.folder.memory))

    def _lines(self, path: Path) -> Iterator[dict[str, Any]]:
        torn = 0
        try:
            for raw in raw_lines(path, self.folder.path):
                line = parsed_line(raw)
                if line is None:
                    torn += 1
                else:
                    yield line
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(f"{path.name} could not be read: {error.strerror}")
        except EntryRefused as error:
            self._note(f"{path.name} was not read: {error}")
        if torn:
            self._note(f"{path.name}: {torn} line(s) could not be read")

    # --- folders ------------------------------------------------------------------------------

    def incidents(self) -> list[FiledIncident]:
        """In order; includes those that only the summary knows."""
        filed = map(read_incident, incident_folders(self.folder.incidents))
        found = {incident["id"]: incident for incident in filed}
        for entry in self.summary().get("incidents", ()):
            # It becomes the name of a folder and of a script: a damaged one may say anything.
            number = known if NUMBER.fullmatch(known := str(entry.get("id"))) else "?"
            found[number] = {**found.get(number, unknown(number)), **entry, "id": number}
        return [found[number] for number in sorted(found, key=_by_number)]

    def newest_checkpoint(self) -> int:
        """Its step, -1 without one; does not check that it is intact."""
        return max(map(step_of, newest_first(self.folder.checkpoints)[:1]), default=-1)

    def owner(self) -> int | None:
        """The process that has claimed the folder, if it runs."""
        pid = self.folder.noted_owner()
        if pid is None:
            return None
        try:
            os.kill(pid, 0)
        except PermissionError:  # of another user, and alive
            return pid
        except OSError:
            return None
        return pid


def metrics_of(lines: Iterable[dict[str, Any]]) -> Iterator[MetricsLine]:
    # Lines of known types: a later version may write others.
    for line in lines:
        kind = METRICS_LINES.get(str(line.get("type")))
        if kind is not None:
            yield typed(line, kind)


def memory_of(lines: Iterable[dict[str, Any]]) -> Iterator[MemoryLine]:
    return (typed(line, MemoryLine) for line in lines)


def _settings(lines: Iterable[str]) -> Iterator[Setting]:
    section = ""
    for line in lines:
        bare = line.strip()
        text, mark, origin = line.rpartition(_ORIGIN)
        if not mark:
            text, origin = line, ""
        if bare.startswith("[") and bare.endswith("]"):
            section = bare.strip("[]") + "."
        elif " = " in text and not text.startswith("#"):
            key, _, value = text.partition(" = ")
            yield Setting(section + key.strip(), value.strip(), origin.strip())


def _by_number(name: str) -> tuple[bool, int]:
    return (False, int(name)) if name.isdecimal() else (True, 0)
