"""Our arm and its peers take turns; what comes of it are lines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttf.tools.bench.catalogue import Tell
from ttf.tools.bench.paired import in_turns, ratio
from ttf.tools.bench.results import Line


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way of doing it. `turn` does `work` units."""

    name: str
    turn: Callable[[], object]
    work: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Ours:
    """Our arm, and the seconds that the machine's ceilings leave for one unit of its work."""

    name: str
    """Of the result."""
    arm: Arm
    unit: str
    shape: str
    ideal_s: float | None = None
    ceiling: str = ""
    note: str = ""
    invert: bool = field(default=False)
    """The value is the time of a unit, in milliseconds, and not units a second."""


def compared(ours: Sequence[Ours], peers: Sequence[Arm], repeats: int, tell: Tell) -> list[Line]:
    """One line for each of ours and each peer, all of them measured in the same rounds."""
    arms = {one.name: one.arm for one in ours} | {peer.name: peer for peer in peers}
    turns = {name: _told(name, arm.turn, tell) for name, arm in arms.items()}

    def progress(done: int, total: int) -> None:
        tell({"done": done, "total": total})

    seconds = in_turns(turns, repeats, progress=progress)
    per_unit = {name: [s / arms[name].work for s in seconds[name]] for name in arms}
    return [
        _line(one, peer, per_unit[one.name], per_unit[peer.name]) for one in ours for peer in peers
    ] or [_alone(one, per_unit[one.name]) for one in ours]


def _told(name: str, turn: Callable[[], object], tell: Tell) -> Callable[[], object]:
    """Who takes a turn is told first: a process that dies is the doing of whoever had it."""

    def told() -> None:
        tell({"at": name})
        turn()

    return told


def _line(one: Ours, peer: Arm, mine: Sequence[float], theirs: Sequence[float]) -> Line:
    faster = ratio(theirs, mine)
    return Line(
        **_own(one, mine),
        peer=peer.name,
        peer_value=_value(one, statistics.median(theirs)),
        ratio=faster.median,
        ratio_low=faster.low,
        ratio_high=faster.high,
        note=peer.note or one.note,
    )


def _alone(one: Ours, mine: Sequence[float]) -> Line:
    return Line(**_own(one, mine), peer=None, note=one.note)


def _own(one: Ours, mine: Sequence[float]) -> dict[str, Any]:
    median = statistics.median(mine)
    ends = sorted((_value(one, min(mine)), _value(one, max(mine))))
    return {
        "name": one.name,
        "unit": one.unit,
        "value": _value(one, median),
        "spread": (ends[0], ends[1]),
        "repeats": len(mine),
        "ceiling_ratio": None if one.ideal_s is None else one.ideal_s / median,
        "ceiling": one.ceiling if one.ideal_s is not None else "",
        "shape": one.shape,
    }


def _value(one: Ours, seconds: float) -> float:
    return 1e3 * seconds if one.invert else 1.0 / seconds


def repeated(call: Callable[[], object], at_least_s: float) -> tuple[Callable[[], object], int]:
    """The call as often as it takes to fill about `at_least_s`, and how often that is."""
    call()
    began = time.perf_counter()
    call()
    once = max(time.perf_counter() - began, 1e-7)
    count = max(1, round(at_least_s / once))

    def turn() -> None:
        for _ in range(count):
            call()

    return turn, count


def wanted(request: Mapping[str, Any], peer: str) -> bool:
    """Whether this peer is to be measured: it is installed, and has not died before."""
    return peer in request["peers"]
