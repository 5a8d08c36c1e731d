"""A study from its folder to its verdict: plans, runs, remembers, and can be continued.

study.json    what is asked, and the edits of every ingredient; never changed
bisect.jsonl  a line per finished run, durable before the next begins
runs/NNN/     what is left of runs that crashed: incidents, run.toml, stderr.txt
data/         files with one thing changed, while they are needed
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from filelock import FileLock

from ttf.errors import ConfigError, DataMissing, TtfError
from ttf.rundir import durable
from ttf.tools.bisect.design import Next, Plan, Verdict, believed, full_grid, judge
from ttf.tools.bisect.factors import MOST_COPIED, Facts, Seen, factors_of
from ttf.tools.bisect.runs import Outcome, Setup, carry_out, raised
from ttf.tools.studies.child import Died, ask
from ttf.tools.studies.folder import claim, release, sha256_of
from ttf.tools.studies.training import MOST_VOID, by_chance

STEPS: Final = 40
_AREA: Final = "bisect"
_SETTINGS: Final = "study.json"
_JOURNAL: Final = "bisect.jsonl"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user asks for; `identity` says whether a folder holds the same study."""

    toml: Path
    sets: tuple[str, ...] = ()
    steps: int | None = None
    seed: int = 0
    confidence: float = 0.95
    rarest: float = 0.2
    most_copied: int = MOST_COPIED
    hang_timeout_s: float | None = None
    leave_out: tuple[str, ...] = ()
    """Ingredients that are not to be looked at."""

    def identity(self) -> dict[str, Any]:
        return {
            "toml": str(self.toml.absolute()),
            "toml_sha256": sha256_of(self.toml),
            "sets": list(self.sets),
            "seed": self.seed,
        }


def prepare(wanted: Wanted, say: Callable[[str], None]) -> Setup:
    """Looks at configuration and data in a child process, and makes the list of ingredients."""
    request = {"do": "survey", "toml": str(wanted.toml.absolute()), "sets": list(wanted.sets)}
    try:
        found = ask({**request, "look": True})
    except Died as error:
        say(f"{error} Only what the configuration itself says can be taken out.")
        found = ask({**request, "look": False})
    flat = found["flat"]
    seen = Seen(flat, Facts.from_json(found["facts"]), wanted.most_copied)
    factors, passed = factors_of(seen)
    passed |= {f.name: "--keep" for f in factors if f.name in wanted.leave_out}
    total = found["total_steps"] or STEPS
    steps = min(wanted.steps or STEPS, total)
    return Setup(
        toml=str(wanted.toml.absolute()),
        toml_sha256=sha256_of(wanted.toml),
        sets=wanted.sets,
        steps=steps,
        seed=wanted.seed,
        pins=found["pins"],
        short=_short(flat, steps, wanted.hang_timeout_s),
        data=found["data"],
        factors=tuple(f for f in factors if f.name not in wanted.leave_out),
        passed=passed,
        confidence=wanted.confidence,
        rarest=wanted.rarest,
    )


def _short(flat: Mapping[str, Any], steps: int, hang_timeout_s: float | None) -> dict[str, Any]:
    """Nothing that a run has is taken from it: what begins late begins early, what is rare stays
    as often as it must."""
    out: dict[str, Any] = {
        "supervise.max_restarts": 0,
        "evaluate.every": "end",
        "evaluate.patience": 0,
        "checkpoint.every_s": None,
    }
    if flat.get("gates"):
        out["gates"] = []
    if hang_timeout_s is not None:
        out["supervise.hang_timeout_s"] = hang_timeout_s
    soon, half = max(1, steps // 4), max(1, steps // 2)
    start = flat.get("miner.start")
    if start == "epoch" or (isinstance(start, int) and start > soon):
        out["miner.start"] = soon
    refresh = flat.get("miner.refresh")
    if refresh == "epoch" or (isinstance(refresh, int) and refresh > half):
        out["miner.refresh"] = half
    bank_start = flat.get("loss.memory_bank_start")
    if isinstance(bank_start, int) and bank_start > soon:
        out["loss.memory_bank_start"] = soon
    return out


# --- the folder ----------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Study:
    """A claimed folder and all that was found out so far."""

    folder: Path
    setup: Setup
    outcomes: list[Outcome] = field(default_factory=list)
    lock: FileLock

    @classmethod
    def begin(cls, folder: Path, setup: Setup) -> Self:
        lock = claim(folder)
        data = durable.json_bytes({"setup": setup.to_json()})
        durable.write_atomically(folder / _SETTINGS, data, _AREA)
        return cls(folder=folder, setup=setup, lock=lock)

    @classmethod
    def open(cls, folder: Path) -> Self:
        setup = read_setup(folder)
        lock = claim(folder)
        if sha256_of(Path(setup.toml)) != setup.toml_sha256:
            release(folder, lock)
            raise ConfigError(
                f"{setup.toml} is not what it was when the study in {folder} began.",
                hint="Put it back, or begin a new study.",
            )
        durable.remove_leftovers(folder)
        return cls(folder=folder, setup=setup, outcomes=_journal(folder), lock=lock)

    def close(self) -> None:
        release(self.folder, self.lock)

    def remember(self, outcome: Outcome) -> None:
        """Durable when this returns."""
        self.outcomes.append(outcome)
        lines = [json.dumps(durable.finite(vars(o)), allow_nan=False) for o in self.outcomes]
        data = "".join(f"{line}\n" for line in lines).encode()
        durable.write_atomically(self.folder / _JOURNAL, data, _AREA)

    # --- what the runs say ----------------------------------------------------------------------

    @property
    def tally(self) -> dict[frozenset[str], tuple[int, int]]:
        return tally_of(self.outcomes)

    @property
    def refused(self) -> dict[str, str]:
        """Ingredients that would not go without, by what their runs ended with."""
        return {
            o.ablated[0]: o.reason or f"exit code {o.exit_code}"
            for o in self.outcomes
            if o.result == "invalid" and len(o.ablated) == 1
        }

    def plan(self, most_of_grid: float | None = None) -> Plan:
        refused = self.refused
        barred = {
            frozenset(o.ablated) for o in self.outcomes if o.result == "invalid" and o.ablated
        }
        return Plan(
            ingredients=tuple(f.ingredient() for f in self.setup.factors if f.name not in refused),
            confidence=self.setup.confidence,
            rarest=self.setup.rarest,
            not_together=frozenset(barred),
            most_of_grid=most_of_grid,
        )

    @property
    def counted(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.result in ("crash", "clean")]

    @property
    def grid(self) -> int:
        return full_grid(self.plan(), self.tally)

    def drop_data(self, keep: Sequence[str]) -> None:
        """The rewritten files, but those that the advice names."""
        for place in (self.folder / "data").glob("*"):
            if place.name not in keep:
                shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or never made
            (self.folder / "data").rmdir()


def tally_of(outcomes: Sequence[Outcome]) -> dict[frozenset[str], tuple[int, int]]:
    out: dict[frozenset[str], tuple[int, int]] = {}
    for o in outcomes:
        if o.result in ("crash", "clean"):
            runs, crashes = out.get(frozenset(o.ablated), (0, 0))
            out[frozenset(o.ablated)] = (runs + 1, crashes + (o.result == "crash"))
    return out


def read_setup(folder: Path) -> Setup:
    try:
        return Setup.from_json(durable.read_json(folder / _SETTINGS)["setup"])
    except FileNotFoundError:
        raise DataMissing(
            f"{folder} holds no study: it has no {_SETTINGS}.",
            hint="Name the folder that ttf bisect printed, e.g. runs/bisect-001.",
        ) from None


def _journal(folder: Path) -> list[Outcome]:
    path = folder / _JOURNAL
    if not path.exists():
        return []
    return [Outcome.from_json(json.loads(line)) for line in path.read_text().splitlines()]


def same_study(folder: Path, wanted: Wanted) -> bool:
    with contextlib.suppress(TtfError, ValueError, KeyError, TypeError):
        setup = read_setup(folder).to_json()
        return all(list(setup[k]) == v if k == "sets" else setup[k] == v
                   for k, v in wanted.identity().items())  # fmt: skip
    return False


# --- carrying it out -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When to stop, however little is known; None: no such limit."""

    budget_s: float | None = None
    max_runs: int | None = None
    most_of_grid: float | None = 0.4


class Watcher(Protocol):
    """Hears of every run."""

    def starts(self, study: Study, wanted: Next) -> None: ...

    def ended(self, study: Study, outcome: Outcome, left_s: float) -> None: ...


def carry_on(study: Study, limits: Limits, watcher: Watcher) -> Verdict:
    """Runs until the verdict or the limit; what can be said then."""
    began = time.monotonic()
    voids = 0
    while True:
        plan, tally = study.plan(limits.most_of_grid), study.tally
        found = judge(plan, tally)
        if isinstance(found, Verdict):
            return found
        left_s = math.inf
        if limits.budget_s is not None:
            left_s = limits.budget_s - (time.monotonic() - began)
        used_up = limits.max_runs is not None and len(study.counted) >= limits.max_runs
        if left_s <= 0 or used_up:
            return replace(believed(plan, tally), kind="unsure", culprit=())
        names = tuple(f.name for f in study.setup.chosen(found.ablate))
        watcher.starts(study, found)
        outcome = carry_out(study.setup, names, len(study.outcomes) + 1, study.folder)
        voids = voids + 1 if outcome.result == "void" else 0
        theirs = by_chance(outcome.result, outcome.classes)
        hopeless = outcome.result == "void" and (not theirs or voids >= MOST_VOID)
        if hopeless or (outcome.result == "invalid" and not names):
            raise raised(outcome)
        study.remember(outcome)
        watcher.ended(study, outcome, left_s)
