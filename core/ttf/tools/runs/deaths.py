"""The deaths in folders of runs and of guarded commands, and what lived beside them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from ttf.errors import DataMissing, EntryRefused
from ttf.rundir.confined import end_of
from ttf.rundir.documents import FiledIncident
from ttf.rundir.run_record import RunRecord

# Deaths of these processes end a life; a miner dies beside its trainer.
_LIVES: Final = ("trainer", "command", "unknown")
_OUTPUT_BYTES: Final = 65_536
BATCH: Final = r"(?i)\b(?:batch|step|iter(?:ation)?)\b\W{0,3}(\d{1,12})"
_MOST_MEMORY: Final = 200_000
# What a clock can have given: beyond, or below zero, a number is damage and counts as unknown.
_LAST_S: Final = 1e11
_RANGES: Final = {
    "time": _LAST_S,
    "age_s": _LAST_S,
    "trained_s": _LAST_S,
    "since_mining_s": _LAST_S,
    "boundary_share": 1.0,
}


@dataclass(frozen=True, kw_only=True)
class DeathSeen:
    """An incident with its place; None where that is not known. Numbers count from 1, `step` is
    the steps done."""

    run: str
    id: str
    name: str  # Its class.
    process: str
    time: float | None = None  # Unix seconds.
    phase: str | None = None
    step: int | None = None
    epoch: int | None = None
    batch_of_epoch: int | None = None
    micro_batch: int | None = None
    micro_batches: int | None = None
    boundary_share: float | None = None
    age_s: float | None = None
    trained_s: float | None = None
    since_mining_s: float | None = None
    since_mining_steps: int | None = None
    mined_for_steps: int | None = None
    memory_bytes: int | None = None

    @property
    def at_boundary(self) -> bool | None:
        """None if that cannot be told, or says nothing because every micro-batch is at it."""
        if not (self.micro_batch and self.micro_batches and self.boundary_share):
            return None
        if self.micro_batches < 3:
            return None
        return self.phase == "optimizer" or self.micro_batch in (1, self.micro_batches)

    @property
    def at_risk_s(self) -> float | None:
        """How long the work lasted. The start-up of a process makes all ages alike: if it is known,
        it does not count, and a death in it is none of the work."""
        if self.phase is None:
            return self.age_s
        return self.trained_s

    @property
    def spot(self) -> tuple[int | None, int | None]:
        """A crash that the data of one step cause comes again at the same place; it is one fact."""
        return self.step, self.micro_batch

    @property
    def since_mining_share(self) -> float | None:
        done, of = self.since_mining_steps, self.mined_for_steps
        if done is None or not of or self.micro_batch is None:
            return None
        return min(1.0, (done + 1) / of)  # The end of the step: the safe side.

    def document(self) -> dict[str, Any]:
        known = asdict(self)
        known["class"] = known.pop("name")
        return {**known, "at_boundary": self.at_boundary}


@dataclass(frozen=True, kw_only=True)
class Deaths:
    deaths: tuple[DeathSeen, ...]  # Of processes whose life they ended.
    others: tuple[DeathSeen, ...] = ()  # Shown only.
    survived_s: tuple[float, ...] = ()  # Lives of processes that did not die.
    memory_bytes: tuple[int, ...] = ()  # At all sampled moments, about one a second.
    runs: int = 0


@dataclass(frozen=True, kw_only=True)
class Printed:
    """How a guarded command's output is read: it writes the number of its batch."""

    accumulate: int
    pattern: re.Pattern[str]


def deaths_in(folders: Sequence[Path], printed: Printed | None = None) -> Deaths:
    """Raises DataMissing if there is no run among them."""
    if not folders:
        raise DataMissing(
            "There is no folder of a run or of ttf guard.",
            hint="ttf guard -- python train.py makes one as soon as the command dies.",
        )
    deaths: list[DeathSeen] = []
    others: list[DeathSeen] = []
    survived: list[float] = []
    memory: list[int] = []
    for folder in folders:
        record = RunRecord(folder)
        points = [
            (line["time"], line["anon"] + line["shared"])
            for line in record.memory()
            if {"time", "anon", "shared"} <= line.keys() and 0 <= line["time"] <= _LAST_S
        ]
        # An end that the user asked for tells nothing about when the work dies: a life that ended well.
        incidents = [found for found in record.incidents() if not found.get("asked")]
        filed = [_seen(folder, found, printed) for found in incidents]
        ends = [one for one in filed if one.process in _LIVES]
        others += [one for one in filed if one.process not in _LIVES]
        deaths += ends
        marks = [one.time for one in ends if one.time is not None]
        lives = _survivors(points, marks, _began(record))
        startup_s = _startup_s(ends)
        survived += [life - startup_s for life in lives if life > startup_s]
        memory += [held for _, held in points]
    thin = -(-len(memory) // _MOST_MEMORY) or 1
    return Deaths(
        deaths=tuple(deaths),
        others=tuple(others),
        survived_s=tuple(survived),
        memory_bytes=tuple(memory[::thin]),
        runs=len(folders),
    )


def _began(record: RunRecord) -> list[float]:
    return [one.began for one in record.sittings() if 0 <= one.began <= _LAST_S]


def _startup_s(deaths: Sequence[DeathSeen]) -> float:
    """Until the first step of a process; of those that did not die it is not recorded."""
    known = [
        death.age_s - death.trained_s
        for death in deaths
        if death.age_s is not None and death.trained_s is not None
    ]
    return max(0.0, median(known)) if known else 0.0


def _survivors(
    points: Sequence[tuple[float, int]], died: Sequence[float], began: Sequence[float]
) -> Iterator[float]:
    """Lives that no incident ended, by their samples: a run that finished, or was stopped."""
    edges = sorted([(at, True) for at in died] + [(at, False) for at in began])
    moments = sorted(when for when, _ in points)
    start = 0
    for at, death in [*edges, (float("inf"), False)]:
        end = bisect_right(moments, at)
        if not death and end - start > 1:
            yield moments[end - 1] - moments[start]
        start = end


def _seen(run: Path, found: FiledIncident, printed: Printed | None) -> DeathSeen:
    known: dict[str, Any] = {
        key: found.get(key)
        for key in DeathSeen.__dataclass_fields__
        if key not in ("run", "id", "name", "process")
    }
    for key, most in _RANGES.items():
        if known[key] is not None and not 0 <= known[key] <= most:
            known[key] = None
    if printed is not None and known["micro_batch"] is None:
        known |= _from_output(run, found["id"], printed)
    return DeathSeen(
        run=str(run),
        id=found["id"],
        name=found["class"],
        process=found.get("process", "unknown"),
        **known,
    )


def _from_output(run: Path, number: str, printed: Printed) -> dict[str, Any]:
    """The last number of a batch that the command wrote."""
    folder = run / "incidents"
    for name in ("stdout.txt", "stderr.txt"):
        try:
            raw, _ = end_of(folder / number / name, run, _OUTPUT_BYTES)
        except (OSError, EntryRefused):
            continue
        numbers = [m[1] for m in printed.pattern.finditer(raw.decode(errors="replace"))]
        if numbers and numbers[-1] and numbers[-1].isdecimal():
            batch = int(numbers[-1])
            return {
                "batch_of_epoch": batch,
                "micro_batch": batch % printed.accumulate + 1,
                "micro_batches": printed.accumulate,
                # Nobody measured it: the update is counted as long as a micro-batch.
                "boundary_share": 3 / (printed.accumulate + 1),
            }
    return {}
