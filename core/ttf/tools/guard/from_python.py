"""`ttf.guard`: the command `ttf guard` for Python."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttf.errors import ConfigError, Stopped
from ttf.text.numbers import parse_bytes
from ttf.text.shell import quoted

__all__ = ["Guarded", "guard"]


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """How the command ended."""

    exit_code: int
    """Its own, or 128 + signal if it died of one."""
    path: Path | None
    """The folder with the incidents; None if nothing had to be kept."""
    summary: Mapping[str, Any]
    """status, exit_code, command, restarts, incidents, hidden, wall_s, peak_anon_mb."""

    @property
    def incidents(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.summary["incidents"]
        return found

    def __repr__(self) -> str:
        classes = ", ".join(str(incident["class"]) for incident in self.incidents)
        where = "" if self.path is None else f", {str(self.path)!r}"
        return f"Guarded(exit code {self.exit_code}{where}{f': {classes}' if classes else ''})"

    def _repr_html_(self) -> str:
        from ttf.text.html import facts_table

        facts = {**self.summary, "folder": self.path or "nothing was kept"}
        words = list(map(str, self.summary["command"]))
        return facts_table(" ".join(map(quoted, words)), [(k, str(v)) for k, v in facts.items()])


def guard(
    command: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    restarts: int | None = None,
    until_success: bool = False,
    memory_limit: int | str | None = None,
    hang_timeout_s: float | None = None,
    log: str | os.PathLike[str] | None = None,
    buffered: bool = False,
    core: bool = False,
) -> Guarded:
    """Watches over any training command; when it dies, a classified incident says why.

    Options are those of `ttf guard`; `memory_limit` is bytes or text like "8G". The command uses
    this process's standard streams. Only in the main thread: signals are passed on to the command.
    Raises `ttf.Stopped` if it was ended by Ctrl-C.
    """
    from ttf.tools.guard.options import GuardOptions
    from ttf.tools.guard.run import guard as run

    if isinstance(command, str) or not command:
        raise ConfigError('command= takes a list of words, e.g. ["python", "train.py"].')
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError(
            "ttf.guard works in the main thread only: it passes signals on to the command.",
            hint="Call it in the main thread, or start `ttf guard -- COMMAND` as a process.",
        )
    limit = _bytes(memory_limit)
    for name, value, least in (
        ("restarts", restarts, 0),
        ("memory_limit", limit, 1),
        ("hang_timeout_s", hang_timeout_s, 1),
    ):
        if value is not None and not value >= least:
            raise ConfigError(f"{name} is {value!r}; it must be at least {least}.")
    outcome = run(
        GuardOptions(
            words=tuple(os.fspath(word) for word in command),
            out=None if out is None else Path(out),
            restarts=restarts,
            until_success=until_success,
            memory_limit=limit,
            hang_timeout_s=hang_timeout_s,
            log=None if log is None else Path(log),
            buffered=buffered,
            core=core,
        )
    )
    if outcome.by_keyboard:
        raise Stopped(signal.SIGINT, "The command was ended by Ctrl-C.")
    return Guarded(exit_code=outcome.code, path=outcome.path, summary=outcome.summary)


def _bytes(limit: int | str | None) -> int | None:
    if not isinstance(limit, str):
        return limit
    try:
        return parse_bytes(limit)
    except ValueError as error:
        raise ConfigError(f"memory_limit: {error}") from None
