"""Which studies of commands this user started on this machine: only they run again on their own.

Anybody may have written a study.json, and it says what to run. So the start of a study leaves a note
in TTF_HOME, outside of its folder: where the folder is, and the hash of what the study runs. Without
that note the user must give the command again, and it must be the one that is written there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.rundir.own_notes import read_note, write_note
from ttf.text.shell import quoted

_NOTES: Final = "studies"  # in TTF_HOME
# They make a process load code: no file may set them, only the environment of the user's own call.
LOADERS: Final = re.compile(
    r"LD_\w+|DYLD_\w+|OMP_TOOL\w*|CUDA_INJECTION\w*|NCCL_\w*(?:PLUGIN|CONF_FILE)\w*"
)


@dataclass(frozen=True, kw_only=True)
class WouldRun:
    """All that decides which code a study of commands runs."""

    commands: tuple[tuple[str, ...], ...]
    cwd: str
    pins: Mapping[str, str]  # variables of native libraries
    edits: tuple[Mapping[str, Any], ...] = ()  # the changes of `ttf bisect`

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def lines(self) -> Iterator[str]:
        """For a person who has not seen it before."""
        for words in self.commands:
            yield f"command: {' '.join(map(quoted, words))}"
        yield f"in the folder: {quoted(self.cwd)}"
        if self.pins:
            yield f"with the variables: {_assigned(self.pins)}"
        for edit in self.edits:
            yield f"changed by: {_assigned(edit)}"


def _assigned(values: Mapping[str, Any]) -> str:
    return " ".join(quoted(k if v is None else f"{k}={v}") for k, v in values.items())


def note_start(folder: Path, wanted: WouldRun) -> None:
    """Best effort: without the note the user is asked to give the command again."""
    write_note(_NOTES, folder, {"sha256": wanted.sha256})


def was_started_here(folder: Path, wanted: WouldRun) -> bool:
    note = read_note(_NOTES, folder)
    return note is not None and note.get("sha256") == wanted.sha256


def refuse_strangers(folder: Path, recorded: WouldRun, given: WouldRun | None, again: str) -> None:
    """Raises ConfigError unless this user started the study here, or has just given the same.

    `given`: what the user's own command line says; `again`: the line that would repeat it.
    """
    if was_started_here(folder, recorded):
        _refuse_other_loaders(folder, recorded)
        return
    if given is None:
        raise ConfigError(
            f"{folder} is not known as a study that you started here, so ttf does not run what is "
            "written in it:",
            problems=list(recorded.lines()),
            hint=f"If you want to run that, give it again, in that folder: {again}",
        )
    if given.sha256 != recorded.sha256:
        theirs, yours = list(recorded.lines()), list(given.lines())
        problems = [f"there: {line}" for line in theirs if line not in yours]
        problems += [f"here: {line}" for line in yours if line not in theirs]
        raise ConfigError(
            f"{folder} is not known as a study that you started here, and it would run something "
            "else than you have given:",
            problems=problems,
            hint=f"For a new study, choose another --out. To run what is there: {again}",
        )
    note_start(folder, recorded)


def _refuse_other_loaders(folder: Path, recorded: WouldRun) -> None:
    missing = {
        name: value
        for name, value in recorded.pins.items()
        if LOADERS.fullmatch(name) and os.environ.get(name) != value
    }
    if missing:
        raise ConfigError(
            f"The study in {folder} began with {_assigned(missing)}, which is not set here. A "
            "variable that loads code is never set from a file.",
            hint="Set it in front of the same command, or start a new study.",
        )
