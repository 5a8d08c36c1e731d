"""The last run: the configuration that won, on all training pairs, with the user's own validation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged
from ttf.process.command import TtfCommand
from ttf.rundir import durable
from ttf.rundir.confined import end_of, read_json
from ttf.rundir.documents import Summary
from ttf.rundir.removing import remove_if_possible, remove_if_there
from ttf.rundir.run_record import RunRecord
from ttf.text.numbers import duration
from ttf.text.shell import quoted
from ttf.tools.studies.one_run import error_of
from ttf.tools.tune.settings import best_toml
from ttf.tools.tune.study import TuneStudy

_LOOK_EVERY_S: Final = 0.1
_LEAVE_S: Final = 30.0  # It saves a checkpoint when it is asked to leave.
_LAST_WORDS: Final = 800


def write_best(study: TuneStudy) -> None:
    """best.toml; equal for equal trials."""
    best, setup = study.best, study.setup
    assert best is not None
    found = f"{setup.metric} {best.score:.4f} on {setup.facts.held_out:,} held out training pairs"
    head = [
        f"Trial {best.number} of ttf tune, the best of {len(study.counted)}: {found}.",
        "To train it: ttf train best.toml",
    ]
    text = best_toml(setup, best.number, best.point, head)
    durable.write_atomically(study.best_toml, text.encode(), study.COMMAND)


def run_last(study: TuneStudy, working: Callable[[], None]) -> Summary:
    """Begins the last run, continues it, or only reads it, as `ttf train` and `ttf resume` do.

    `working` is called now and then. Raises the error of the run.
    """
    place = study.best_run
    if is_finished(study):
        return RunRecord(place).summary()
    begun = (place / "run.toml").is_file()
    words = ["resume", str(place.absolute())]
    if not begun:
        words = ["train", str(study.best_toml.absolute()), "--out", str(place.absolute())]
    if study.allow_remote:
        words += ["--allow-remote"]
    elif not begun:
        words += ["--no-remote"]
    with _command(study, [*words, "--json"]) as command:
        while command.process.poll() is None:
            working()
            time.sleep(_LOOK_EVERY_S)
        code = command.process.returncode
        if code:
            error = error_of(_told(study, command), code)
            error.hint = (
                f"{error.hint} The study is kept: {study.resume_command(study.folder)}".lstrip()
            )
            raise error
    return RunRecord(place).summary()


def is_finished(study: TuneStudy) -> bool:
    summary = RunRecord(study.best_run).summary()
    return summary.get("status") == "finished" and summary.get("exit_code") == 0


@contextlib.contextmanager
def _command(study: TuneStudy, words: list[str]) -> Iterator[TtfCommand]:
    """Its output goes to files, which are removed when it has ended."""
    files = [study.folder / f"best.{kind}" for kind in ("out", "err")]
    for left in files:  # of a study that was killed
        remove_if_there(left, study.folder)
    command = TtfCommand(words, *files, cwd=Path(study.setup.cwd))
    try:
        yield command
    finally:
        command.end(_LEAVE_S)
        for path in files:
            remove_if_possible(path, study.folder)


def _told(study: TuneStudy, command: TtfCommand) -> dict[str, Any]:
    with contextlib.suppress(ArtifactDamaged, LookupError, TypeError, ValueError, OSError):
        return dict(read_json(command.out, study.folder)["error"])
    said, _ = end_of(command.err, study.folder, _LAST_WORDS)
    return {"message": said.decode(errors="replace")}


def says_late(study: TuneStudy, needed_s: float, left_s: float) -> str:
    """A warning if the last run will not end within the budget; empty otherwise."""
    if needed_s <= left_s:
        return ""
    over = needed_s - max(0.0, left_s)
    return (
        f"The last run will probably end {duration(over)} after the budget: the trials were slower "
        f"than predicted. To train later: Ctrl-C, then ttf train {quoted(study.best_toml)}"
    )
