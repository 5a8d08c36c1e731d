"""`memory.limit`: what all processes of a run may hold together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttf.machine.memory.limits import Limit, limit_in_force
from ttf.text.numbers import parse_bytes, percent, size

AUTO: Final = "auto"


def run_limit(setting: int | str, root: Path = Path("/"), pid: int | None = None) -> Limit:
    """The limit as it is now: the smallest limit in force, or the setting if that is less.

    Read it again while a run goes on: limits of control groups may change. `root`, `pid`: as in
    `limit_in_force`.
    """
    return asked_limit(setting, limit_in_force(root, pid))


def asked_limit(setting: int | str, in_force: Limit) -> Limit:
    """
    >>> asked_limit("60%", Limit(1000, "physical memory"))
    Limit(bytes=600, source='memory.limit, 60% of 1.0 kB, physical memory')
    >>> asked_limit("2kB", Limit(1000, "physical memory")).source
    'physical memory'
    """
    if setting == AUTO:
        return in_force
    share = None if isinstance(setting, int) else percent(setting)
    if share is not None:
        of = f"{size(in_force.bytes)}, {in_force.source}"
        return Limit(int(share * in_force.bytes), f"memory.limit, {setting} of {of}")
    asked = setting if isinstance(setting, int) else parse_bytes(setting)
    return in_force if in_force.bytes < asked else Limit(asked, "memory.limit")
