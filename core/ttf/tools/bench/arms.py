"""Measures our implementation and its peers in turns, and makes result lines."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ttf.tools.bench.catalogue import Tell, Work
from ttf.tools.bench.paired import in_turns, ratio
from ttf.tools.bench.results import Line
from ttf.tools.bench.sizes import SIZES, Size


@dataclass(frozen=True, kw_only=True)
class BenchArm:
    """One implementation. `turn` does `work` units."""

    name: str
    turn: Callable[[], object]
    work: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class OwnArm(BenchArm):
    """Ours; `ideal_s`: seconds for one unit of work at the machine's ceilings."""

    unit: str
    shape: str
    ideal_s: float | None = None
    ceiling: str = ""
    invert: bool = False  # the value is milliseconds per unit, not units per second

    def value(self, seconds: float) -> float:
        """The value for a unit that took this long."""
        return 1e3 * seconds if self.invert else 1.0 / seconds


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One running bench."""

    size: Size
    peers: Collection[str]  # peers to measure as well
    ceilings: Mapping[str, Any]
    tell: Tell
    folder: Path  # for its files; deleted at the end


# our arms and the peers that are measured in the same rounds
Turns = tuple[Sequence[OwnArm], Sequence[BenchArm]]


def bench(arms: Callable[[Visit], Generator[Turns]]) -> Work:
    """The task that measures what a generator yields, and then continues the generator."""

    def work(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        size = SIZES[request["size"]]
        lines = lines_of(arms, size, request["peers"], request["ceilings"], tell)
        return {"lines": [asdict(line) for line in lines]}

    return work


def lines_of(
    arms: Callable[[Visit], Generator[Turns]],
    size: Size,
    peers: Collection[str],
    ceilings: Mapping[str, Any],
    tell: Tell,
) -> list[Line]:
    with scratch_folder() as folder:
        visit = Visit(size=size, peers=peers, ceilings=ceilings, tell=tell, folder=folder)
        tell({"at": "making data"})
        with contextlib.closing(arms(visit)) as turns:
            return [line for own, other in turns for line in _measured(own, other, visit)]


def _measured(own_arms: Sequence[OwnArm], peers: Sequence[BenchArm], visit: Visit) -> list[Line]:
    arms = {arm.name: arm for arm in (*own_arms, *peers)}
    turns = {name: _with_report(arm, visit.tell) for name, arm in arms.items()}

    def progress(done: int, total: int) -> None:
        visit.tell({"done": done, "total": total})

    seconds = in_turns(turns, visit.size.repeats, progress=progress)
    unit_s = {name: [s / arm.work for s in seconds[name]] for name, arm in arms.items()}
    lines = {own.name: _line(own, unit_s[own.name]) for own in own_arms}
    if not peers:
        return list(lines.values())
    return [_compared(lines[own.name], own, peer, unit_s) for own in own_arms for peer in peers]


def _with_report(arm: BenchArm, tell: Tell) -> Callable[[], object]:
    # Reports the arm before its turn: if the process dies, this arm was the cause.
    def turn() -> None:
        tell({"at": arm.name})
        arm.turn()

    return turn


def _line(own: OwnArm, own_s: Sequence[float]) -> Line:
    median = statistics.median(own_s)
    low, high = sorted((own.value(min(own_s)), own.value(max(own_s))))
    return Line(
        name=own.name,
        peer=None,
        unit=own.unit,
        value=own.value(median),
        spread=(low, high),
        repeats=len(own_s),
        ceiling_ratio=None if own.ideal_s is None else own.ideal_s / median,
        ceiling=own.ceiling if own.ideal_s is not None else "",
        shape=own.shape,
        note=own.note,
    )


def _compared(
    line: Line, own: OwnArm, peer: BenchArm, unit_s: Mapping[str, Sequence[float]]
) -> Line:
    faster = ratio(unit_s[peer.name], unit_s[own.name])
    return replace(
        line,
        peer=peer.name,
        peer_value=own.value(statistics.median(unit_s[peer.name])),
        ratio=faster.median,
        ratio_low=faster.low,
        ratio_high=faster.high,
        note=peer.note or own.note,
    )


def repeated(call: Callable[[], object], at_least_s: float) -> tuple[Callable[[], object], int]:
    """A function that repeats the call for about `at_least_s`, and the number of repeats."""
    call()
    began = time.perf_counter()
    call()
    once = max(time.perf_counter() - began, 1e-7)
    count = max(1, round(at_least_s / once))

    def turn() -> None:
        for _ in range(count):
            call()

    return turn, count


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ttf-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
