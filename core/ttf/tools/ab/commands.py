"""Arms that are anybody's commands: read from `--command`, repeated under guard, measured by time,
memory and a number in what they print."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ttf.errors import ConfigError
from ttf.tools.ab.measures import METRICS, SECONDS
from ttf.tools.ab.sample import RepeatIncident, RepeatOutcome, Sample
from ttf.tools.ab.setup import ABSetup, Arm, Better, Cell, CommandTerms
from ttf.tools.studies.guarded_run import (
    SEED,
    CommandEnd,
    end_of_command,
    pinned,
    scripts_of,
    since_then,
    start_guarded,
)
from ttf.tools.studies.one_run import Result, StartedRun

_OF_SHELL: Final = re.compile(r"\|\|?|&&?|;|\d?>>?.*|<.*")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_OUTCOMES: Final[dict[Result, RepeatOutcome]] = {
    "clean": "clean",
    "crash": "lost",
    "void": "void",
    "invalid": "invalid",
}


def arms_of(texts: Sequence[str]) -> tuple[Arm, ...]:
    """Raises ConfigError with all problems."""
    problems, arms = [], []
    for text in texts:
        try:
            arms.append(Arm(name=text.strip(), toml="", toml_sha256="", slug="", words=words(text)))
        except ValueError as error:
            problems.append(f"--command {text!r}: {error}")
    names = [arm.name for arm in arms]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        problems.append(f"--command {name!r} is given twice")
    if problems:
        raise ConfigError("ttf ab cannot compare these commands:", problems=problems)
    if len(arms) < 2:
        raise ConfigError(
            "A comparison needs at least two commands, but only one was given.",
            hint='ttf ab --command "python a.py" --command "python b.py"',
        )
    return tuple(replace(arm, slug=f"command-{n}") for n, arm in enumerate(arms, start=1))


def words(text: str) -> tuple[str, ...]:
    """As a shell splits it; with pipes and the like, a shell runs it. Raises ValueError.

    >>> words("A=1 python 'my file.py'")
    ('env', 'A=1', 'python', 'my file.py')
    >>> words("python a.py | tee log")
    ('sh', '-c', 'python a.py | tee log')
    """
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{error}. Quote the whole command once.") from None
    if not found:
        raise ValueError("it is empty.")
    if any(_OF_SHELL.fullmatch(word) for word in found):
        return ("sh", "-c", text.strip())
    return ("env", *found) if _ASSIGNMENT.match(found[0]) else tuple(found)


def as_text(given: tuple[str, ...]) -> str:
    """What `words` splits into these words.

    >>> as_text(("sh", "-c", "python a.py | tee log")), as_text(("python", "my file.py"))
    ('python a.py | tee log', "python 'my file.py'")
    """
    if given[:2] == ("sh", "-c") and len(given) == 3:
        with contextlib.suppress(ValueError):
            if words(given[2]) == given:
                return given[2]
    return shlex.join(given)


def terms_of(
    arms: Sequence[Arm], *, metric: str | None, better: Better, run_limit_s: float | None
) -> CommandTerms:
    """What all arms share. Raises ConfigError."""
    if metric is not None:
        try:
            groups = re.compile(metric).groups
        except re.error as error:
            raise ConfigError(f"--metric {metric!r} is no regular expression: {error}.") from None
        if groups != 1:
            raise ConfigError(
                f"--metric {metric!r} has {groups} groups, but one must hold the number.",
                hint="Write for example --metric 'loss: ([0-9.]+)'.",
            )
    scripts: dict[str, str] = {}
    for arm in arms:
        scripts |= scripts_of(arm.words, Path.cwd())
    return CommandTerms(
        metric=metric,
        better=better,
        run_limit_s=run_limit_s,
        pins=pinned(os.environ),
        scripts=scripts,
    )


# --- a repeat ------------------------------------------------------------------------------------


def start_command(setup: ABSetup, cell: Cell, folder: Path) -> StartedRun:
    assert setup.commands is not None
    return start_guarded(
        setup.arm(cell.arm).words,
        {**since_then(setup.commands.pins), SEED: str(cell.seed)},
        folder,
        cwd=setup.cwd,
        limit_s=setup.commands.run_limit_s,
        hang_timeout_s=setup.hang_timeout_s,
    )


def read_command(setup: ABSetup, cell: Cell, run: StartedRun) -> Sample:
    assert setup.commands is not None
    end = end_of_command(run)
    metrics = {SECONDS: round(run.wall_s if end.wall_s is None else end.wall_s, 3)}
    if (value := _metric(setup.commands, run.words_said)) is not None:
        metrics[METRICS[setup.commands.better]] = value
    peak = end.peak_anon_mb
    return Sample(
        arm=cell.arm,
        block=cell.block,
        position=cell.position,
        seed=cell.seed,
        outcome=_outcome(end),
        exit_code=end.exit_code,
        reason=end.how,
        incidents=tuple(RepeatIncident(name=c, process="command", step=0) for c in end.classes),
        wall_s=round(run.wall_s, 3),
        peak_anon_mb=peak if peak else None,
        metrics=metrics,
    )


def _outcome(end: CommandEnd) -> RepeatOutcome:
    # Like a repeat of ours: a memory guard outside may kill one arm only.
    sigkilled = end.classes == ("killed",) and end.exit_code == 128 + signal.SIGKILL
    return "lost" if sigkilled else _OUTCOMES[end.result]


def _metric(terms: CommandTerms, said: str) -> float | None:
    """The last number that was printed; None without one."""
    found = None if terms.metric is None else [m[1] for m in re.finditer(terms.metric, said)]
    try:
        return float(found[-1]) if found else None
    except (TypeError, ValueError):  # the group matched no number
        return None
