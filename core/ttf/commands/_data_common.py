"""Progress and output checks of the `ttf data` commands."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.text.shell import quoted
from ttf.text.terminal import echo, is_terminal, say

if TYPE_CHECKING:
    from ttf.contracts import Progress
    from ttf.data.companions import Companions


def check_outputs(paths: list[str], overwrite: bool) -> None:
    """Raises ConfigError if an output is a device or a pipe, or exists and `overwrite` is not
    set."""
    from ttf.errors import ConfigError
    from ttf.rundir.outputs import refuse_special

    for path in paths:
        if "://" not in path:
            refuse_special(Path(path))
    there = [path for path in paths if "://" not in path and Path(path).exists()]
    if there and not overwrite:
        raise ConfigError(
            f"{', '.join(there)} already exists.", hint="Add --overwrite, or choose another output."
        )


def train_command(found: Companions) -> str:
    """`ttf train ... --plan` for these files, with FILE for one that is not known."""
    words = ["ttf train", "--pairs", _word(found.pairs)]
    words += ["--bank", _word(found.bank)] if found.needs_bank else []
    words += ["--context", _word(found.context)] if found.needs_context else []
    return " ".join([*words, "--plan"])


def _word(uri: str | None) -> str:
    return "FILE" if uri is None else quoted(uri)


def progress_lines(what: str) -> Progress:
    """Returns a callback that reports the progress of a long command every few seconds."""
    began = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 2.0:
            return
        last = now
        left = (now - began) * (total - done) / max(done, 1)
        text = f"{what}: {100 * done / max(total, 1):.0f} %, {left:.0f} s left"
        if is_terminal(sys.stderr):
            echo(f"{text}    ", err=True, begin="\r", end="\n" if done == total else "")
        else:
            say(text)

    return report
