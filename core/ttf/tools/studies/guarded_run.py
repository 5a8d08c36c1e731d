"""One run of anybody's command: `ttf guard -- COMMAND`, and what its end says.

The command may be flaky, and a change of it may break it: a refused option, or an interpreter
without its libraries, is no answer to the question why the unchanged command dies.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.incidents.facts import signal_name
from ttf.rundir.incident_files import incident_folders, read_incident
from ttf.rundir.run_record import RunRecord
from ttf.tools.studies.one_run import NOT_ITS_FAULT, Result, StartedRun
from ttf.tools.studies.started_here import LOADERS
from ttf.tools.studies.study import sha256_of

SEED: Final = "TTF_STUDY_SEED"  # differs from run to run; scripts may use it
# Settings of native libraries: a resumed study gives every run those of its first command.
PINNED: Final = re.compile(
    r"(?:OMP|KMP|GOMP|MKL|OPENBLAS|GOTO|VECLIB|NUMEXPR|BLIS|PYTORCH|TORCH|CUDA|NCCL|MALLOC)_\w+"
    r"|LD_PRELOAD|DYLD_INSERT_LIBRARIES|PYTHONMALLOC"
)
_SCRIPTS: Final = frozenset({".py", ".sh", ".toml", ".yaml", ".yml", ".json"})
_SHELL: Final = {126, 127}  # not executable, not found
_USAGE_CODE: Final = 2
_USAGE: Final = re.compile(
    r"^usage: |unrecognized arguments|can't open file|no such option|invalid choice|"
    r"unknown option|unrecognized option|No such file or directory",
    re.MULTILINE | re.IGNORECASE,
)
_PYTHON_ERROR: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: .*)?$")
_GUARD: Final = "ttf guard:"
_LONGEST: Final = 160

Environment = Mapping[str, str | None]  # None: without this variable


@dataclass(frozen=True, kw_only=True)
class CommandEnd:
    """How a run ended."""

    result: Result
    classes: tuple[str, ...] = ()
    how: str = ""  # 'SIGSEGV', 'exit code 1: ValueError: no rows'
    python_error: str = ""  # the class of the exception that ended it
    exit_code: int = 0
    peak_anon_mb: float | None = None
    wall_s: float | None = None  # of the command, without the guard's start


def start_guarded(
    words: Sequence[str],
    environment: Environment,
    folder: Path,
    *,
    cwd: str,
    limit_s: float | None = None,
    hang_timeout_s: float | None = None,
) -> StartedRun:
    """The environment is for the command only: a preloaded library must not kill its guard."""
    options = [] if hang_timeout_s is None else ["--hang-timeout", f"{hang_timeout_s:g}s"]
    return StartedRun(
        ["guard", *options],
        folder,
        cwd=Path(cwd),
        command=with_environment(words, environment),
        limit_s=limit_s,
    )


def with_environment(words: Sequence[str], environment: Environment) -> list[str]:
    """As a shell runs it.

    >>> with_environment(["python", "train.py"], {"OMP_NUM_THREADS": "1", "LD_PRELOAD": None})
    ['env', '-u', 'LD_PRELOAD', 'OMP_NUM_THREADS=1', 'python', 'train.py']
    """
    if not environment:
        return list(words)
    without = [
        part for name, value in environment.items() if value is None for part in ("-u", name)
    ]
    given = [f"{name}={value}" for name, value in environment.items() if value is not None]
    return ["env", *without, *given, *words]


def pinned(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in sorted(environment) if PINNED.fullmatch(name)}


def since_then(pins: Mapping[str, str]) -> dict[str, str | None]:
    """What undoes the changes of the pinned variables since the study began. The pins come from a
    file: no other variable is set, and none that loads code."""
    now = pinned(os.environ)
    gone: dict[str, str | None] = dict.fromkeys(now.keys() - pins.keys())
    changed = {name: value for name, value in pins.items() if now.get(name) != value}
    return gone | {
        name: value
        for name, value in changed.items()
        if PINNED.fullmatch(name) and not LOADERS.fullmatch(name)
    }


def scripts_of(words: Sequence[str], cwd: Path) -> dict[str, str]:
    """The SHA-256 of the scripts and configurations that the command names, by path."""
    named = [cwd / word for word in words if Path(word).suffix in _SCRIPTS]
    return {str(path): sha256_of(path) for path in named if path.is_file()}


def end_of_command(run: StartedRun) -> CommandEnd:
    """What a run that is over says, without regard to other runs."""
    folders = incident_folders(run.folder / "incidents")
    filed = [read_incident(folder) for folder in folders]
    classes = tuple(dict.fromkeys(incident["class"] for incident in filed))
    said = [line for line in run.words_said.splitlines() if line and not line.startswith(_GUARD)]
    summary = RunRecord(run.folder).summary()
    peak, wall_s = summary.get("peak_anon_mb"), summary.get("wall_s")
    if not summary:  # the guard itself ended: that says nothing about the command
        last = next(iter(run.words_said.splitlines()[-1:]), "")
        how = f"ttf guard ended with exit code {run.exit_code}: {last[:_LONGEST]}"
        return CommandEnd(result="void", how=how, exit_code=run.exit_code)
    if run.survived:
        return CommandEnd(result="clean", peak_anon_mb=peak, wall_s=wall_s)
    code, signum = run.exit_code, next((i.get("signal") for i in filed), None)
    error = _python_error(said) if "python-error" in classes else ""
    how = signal_name(signum) if signum else f"exit code {code}"
    if not signum and (line := _telling_line(said, error)):
        how = f"{how}: {line}"
    return CommandEnd(
        result=_result(code, classes, "\n".join(said[-20:])),
        classes=classes,
        how=how if code or classes else "",
        python_error=error,
        exit_code=code,
        peak_anon_mb=peak,
        wall_s=wall_s,
    )


def _result(code: int, classes: Sequence[str], said: str) -> Result:
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM) or set(classes) & NOT_ITS_FAULT:
        return "void"
    refused = code == _USAGE_CODE and _USAGE.search(said) is not None
    if code in _SHELL or (refused and set(classes) <= {"unknown", "python-error"}):
        return "invalid"
    return "crash" if code or classes else "clean"


def _python_error(said: Sequence[str]) -> str:
    """The exception of the last traceback."""
    for line in reversed(said):
        found = _PYTHON_ERROR.match(line)
        if found is not None and found["name"].endswith(("Error", "Exception", "Interrupt")):
            return found["name"]
    return ""


def _telling_line(said: Sequence[str], error: str) -> str:
    line = next((line for line in reversed(said) if error and line.startswith(error)), "")
    return (line or (said[-1] if said else ""))[:_LONGEST]


def not_comparable(end: CommandEnd, unchanged: Sequence[str]) -> str:
    """Why a changed run's crash says nothing: Python refused to go on, with an error that is in none
    of the ends of the unchanged command. Empty if it counts."""
    known = any(f": {end.python_error}" in how for how in unchanged)
    if end.result != "crash" or not end.python_error or known:
        return ""
    return f"with this change it fails in another way, {end.how}"
