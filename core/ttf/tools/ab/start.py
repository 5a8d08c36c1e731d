"""A new study, or the unfinished one that the same words began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.tools.ab.arms import arms_of, checked
from ttf.tools.ab.setup import Setup
from ttf.tools.ab.study import RESULT, SETTINGS, Study, same_study
from ttf.tools.studies.folder import next_folder

_RUNS: Final = Path("runs")


def begin(
    files: Sequence[Path],
    *,
    vary: Sequence[str] = (),
    sets: Sequence[str] = (),
    steps: int | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    command: str = "",
    **asked: Any,
) -> Study:
    """Claimed, its arms checked; `asked` are fields of Setup. Raises ConfigError with all problems
    before there is a folder."""
    arms, notes = checked(arms_of(files, vary), sets, steps)
    for note in notes:
        say(note)
    setup = Setup(arms=arms, sets=tuple(sets), steps=steps, cwd=str(Path.cwd()), **asked)
    folder = out or _unfinished(setup)
    if folder is not None and (folder / SETTINGS).exists():
        if not same_study(folder, setup):
            raise ConfigError(
                f"{folder} holds another study.",
                hint=f"Continue that with: ttf ab --resume {folder}, or choose another --out.",
            )
        return Study.open(folder)
    return Study.begin(folder or next_folder(_RUNS, "ab"), setup, command)


def _unfinished(setup: Setup) -> Path | None:
    """Of the folders that are made without --out."""
    for folder in sorted(_RUNS.glob("ab-*"), reverse=True):
        if not (folder / RESULT).exists() and same_study(folder, setup):
            return folder
    return None
