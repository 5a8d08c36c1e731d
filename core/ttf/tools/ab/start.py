"""A new study, or the unfinished one that the same command began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ttf.tools.ab.arms import arms_from, check_arms
from ttf.tools.ab.setup import ABSetup
from ttf.tools.ab.study import ABStudy, new_record


def begin(
    files: Sequence[Path],
    *,
    vary: Sequence[str] = (),
    sets: Sequence[str] = (),
    steps: int | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    command: str = "",
    **setup_fields: Any,
) -> ABStudy:
    """Claimed, its arms checked; `setup_fields` are those of ABSetup. Raises ConfigError with all
    problems before there is a folder."""
    arms, notes = check_arms(arms_from(files, vary), sets, steps)
    for note in notes:
        say(note)
    setup = ABSetup(arms=arms, sets=tuple(sets), steps=steps, cwd=str(Path.cwd()), **setup_fields)
    folder = ABStudy.find(setup.identity, out)
    if folder is not None:
        return ABStudy.open(folder)
    record = new_record(command)
    return ABStudy(folder=ABStudy.new_folder(out), setup=setup, record=record).begin()
