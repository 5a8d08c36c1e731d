"""The options of the guard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    words: tuple[str, ...]  # the command and its arguments
    out: Path | None = None  # None: runs/guard-NNN, made when there is something to keep
    restarts: int | None = None  # The most; None: none, or without limit with `until_success`.
    until_success: bool = False
    memory_limit: int | None = None
    hang_timeout_s: float | None = None
    log: Path | None = None  # where the command writes, if nothing else tells
    core: bool = False  # native stacks from core files
    buffered: bool = False  # Pythons keep their buffers of standard output

    @property
    def most_restarts(self) -> float:
        if self.restarts is not None:
            return self.restarts
        return float("inf") if self.until_success else 0
