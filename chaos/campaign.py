"""Repeats every fault with its own random numbers, several at a time, and adds them up to rows."""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.running import Place, Running
from chaos.verdict import STORAGE, Verdict
from chaos.world import CONFIGURATIONS, Reference, World


@dataclass(frozen=True, kw_only=True)
class Case:
    """One repetition of one fault."""

    world: World
    fault: str
    number: int
    folder: Path
    rng: random.Random
    total: int
    """How many repetitions there are."""

    @property
    def configuration(self) -> str:
        """They take turns."""
        return list(CONFIGURATIONS)[self.number % len(CONFIGURATIONS)]

    @property
    def reference(self) -> Reference:
        return self.world.reference(self.configuration)

    def place(self, name: str = "") -> Place:
        return Place(root=self.folder / name if name else self.folder)

    def words(self, place: Place, *more: str, data: Path | None = None) -> list[str]:
        return [*self.world.words(self.configuration, place.run, data), *more]

    def again(self, place: Place, *more: str, data: Path | None = None) -> list[str]:
        """Continues a run whose supervisor is gone; the same command, where it had not begun."""
        if (place.run / "run.toml").exists():
            return ["resume", str(place.run)]
        return self.words(place, *more, data=data)


RESUMED: Final = "ended with exit code 8, resumed"


def resumed_until_finished(
    case: Case, place: Place, code: int, verdict: Verdict, most: int = 4
) -> int:
    """A disk that fails may end a run (exit code 8, and why); it goes on once the disk is well."""
    for _ in range(most):
        if code != STORAGE:
            break
        verdict.phases[RESUMED] += 1
        with Running(place, case.again(place)) as running:
            code = running.ended()
    return code


def _nothing() -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is done to runs, and what must come of it."""

    name: str
    """For --only."""
    title: str
    """Its row in the table."""
    runs: int
    quick: int
    """Repetitions with --quick."""
    run: Callable[[Case], Verdict]
    why_not: Callable[[], str] = _nothing
    """Why it cannot be done on this machine; empty where it can."""
    alone: bool = False
    """Nothing else may run beside it."""


@dataclass(kw_only=True)
class Row:
    """A fault's repetitions, added up."""

    fault: Fault
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts)

    @property
    def redone(self) -> list[int]:
        return [n for verdict in self.verdicts for n in verdict.redone]

    @property
    def bounds(self) -> list[int]:
        return [n for verdict in self.verdicts for n in verdict.bounds]

    @property
    def deaths(self) -> int:
        return sum(verdict.deaths for verdict in self.verdicts)

    @property
    def phases(self) -> Counter[str]:
        return sum((verdict.phases for verdict in self.verdicts), Counter())

    @property
    def most(self) -> dict[str, float]:
        names = [name for verdict in self.verdicts for name in verdict.most]
        return {n: max(v.most.get(n, 0.0) for v in self.verdicts) for n in dict.fromkeys(names)}

    def share(self, name: str) -> str:
        """'20/20' of what applies."""
        values = [v for verdict in self.verdicts if (v := getattr(verdict, name)) is not None]
        return f"{sum(values)}/{len(values)}" if values else "-"

    def steps_redone(self) -> str:
        if not self.redone:
            return "-"
        median = statistics.median(self.redone)
        return f"{median:g}, {max(self.redone)} (at most {max(self.bounds)})"


def run_fault(
    fault: Fault,
    world: World,
    *,
    runs: int,
    first: int,
    jobs: int,
    say: Callable[[str], None],
) -> Row:
    """All repetitions, `first` being the number of the first one; failed ones keep their folder."""
    row = Row(fault=fault, skipped=fault.why_not())
    if row.skipped:
        say(f"{fault.name}: left out, {row.skipped}")
        return row
    began = time.monotonic()
    cases = [_case(fault, world, number, runs) for number in range(first, first + runs)]
    with _pool(1 if fault.alone else jobs) as pool:
        for case, verdict in zip(cases, pool.map(_judged, _each(fault, cases)), strict=True):
            row.verdicts.append(verdict)
            say(f"{fault.name} {case.number - first + 1}/{runs}: {_told(verdict)}")
            for problem in verdict.problems:
                say(f"    {problem}")
            if not verdict.ok:
                again = f"python -m chaos --only {fault.name} --seed {world.seed}"
                say(f"    again: {again} --first {case.number} --runs 1; its folder: {case.folder}")
    row.seconds = time.monotonic() - began
    return row


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _case(fault: Fault, world: World, number: int, total: int) -> Case:
    folder = world.folder / f"{fault.name}-{number:03d}"
    rng = random.Random(f"{world.seed}/{fault.name}/{number}")
    return Case(world=world, fault=fault.name, number=number, folder=folder, rng=rng, total=total)


def _each(fault: Fault, cases: Sequence[Case]) -> Iterable[tuple[Fault, Case]]:
    return [(fault, case) for case in cases]


def _judged(given: tuple[Fault, Case]) -> Verdict:
    """A campaign goes on, whatever happens to one run of it."""
    fault, case = given
    began = time.monotonic()
    case.folder.mkdir(parents=True)
    try:
        verdict = fault.run(case)
    except Exception as error:  # noqa: BLE001 - it fails its row
        verdict = Verdict(problems=[f"{type(error).__name__}: {error}"])
    verdict.seconds = time.monotonic() - began
    if verdict.ok:
        shutil.rmtree(case.folder)
    return verdict


def _told(verdict: Verdict) -> str:
    parts = ["well" if verdict.ok else "NOT WELL", f"{verdict.seconds:.1f} s"]
    if verdict.deaths:
        parts.append(f"{verdict.deaths} struck")
    if verdict.redone:
        parts.append(f"redone {verdict.redone} of at most {max(verdict.bounds)}")
    parts += [f"at most {value:.1f} {name}" for name, value in verdict.most.items()]
    return ", ".join(parts)
