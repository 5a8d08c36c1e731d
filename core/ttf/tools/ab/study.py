"""A study from its folder to its last repeat: runs, remembers, and can be continued.

study.json     what is compared and how; of that, only the number of repeats may grow
samples.jsonl  a line per finished repeat, durable before the next begins
runs/BLOCK-ARM what is kept of each repeat
"""

from __future__ import annotations

import contextlib
import json
import math
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Protocol, Self

from filelock import FileLock

from ttf.errors import ConfigError, DataMissing, GaveUp, TtfError
from ttf.host.version import __version__
from ttf.rundir import durable
from ttf.tools.ab.repeat import Ended, carry_out, run_folder
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.schedule import Cell, next_wave
from ttf.tools.ab.setup import Setup
from ttf.tools.studies.folder import claim, release, sha256_of
from ttf.tools.studies.training import MOST_VOID, by_chance, error_of

SETTINGS: Final = "study.json"
RESULT: Final = "result.json"
"""There once the study has all its repeats, or needs no more."""
_JOURNAL: Final = "samples.jsonl"
_AREA: Final = "ab"
_COSTLY: Final = 0.4

Reason = Literal["all", "settled", "budget"]
"""all repeats are done; a sequential study needs no more; the time is used up."""


@dataclass(kw_only=True)
class Record:
    """How it was carried out, for whoever reads of it later."""

    command: str = ""
    machine: str = ""
    parallel: int = 1
    """The most repeats that ran at a time."""
    looks: list[int] = field(default_factory=list)
    """Of a sequential study: the blocks after which it was judged."""


@dataclass(kw_only=True)
class Study:
    """A claimed folder and all samples so far."""

    folder: Path
    setup: Setup
    record: Record = field(default_factory=Record)
    samples: list[Sample] = field(default_factory=list)
    lock: FileLock

    @classmethod
    def begin(cls, folder: Path, setup: Setup, command: str = "") -> Self:
        lock = claim(folder)
        record = Record(command=command, machine=_machine())
        study = cls(folder=folder, setup=setup, record=record, lock=lock)
        study.write_settings()
        return study

    @classmethod
    def open(cls, folder: Path) -> Self:
        """To go on with it; every configuration must be what it was."""
        setup = read_setup(folder)
        lock = claim(folder)
        try:
            _refuse_changed(setup, folder)
            durable.remove_leftovers(folder)
            samples, record = read_samples(folder), read_record(folder)
            study = cls(folder=folder, setup=setup, record=record, samples=samples, lock=lock)
            study._drop_unfinished()
        except BaseException:
            release(folder, lock)
            raise
        return study

    @classmethod
    def reopened(cls, folder: Path, repeats: int | None = None) -> Self:
        """The same, with more repeats where that is asked for."""
        study = cls.open(folder)
        try:
            if repeats is not None:
                study.extend(repeats)
        except BaseException:
            study.close()
            raise
        return study

    def close(self) -> None:
        release(self.folder, self.lock)

    def extend(self, repeats: int) -> None:
        """More repeats than it was begun with: the ones that are done stay what they are."""
        if repeats < self.setup.repeats:
            raise ConfigError(
                f"The study in {self.folder} has {self.setup.repeats} repeats; they can become "
                "more, not fewer.",
                hint="--budget ends a study early.",
            )
        if repeats > self.setup.repeats and self.setup.sequential:
            raise ConfigError(
                "A sequential study was planned for so many repeats, and what its looks may "
                "spend followed from that; it gets no more.",
                hint="Begin a new study with more --repeats.",
            )
        if repeats > self.setup.repeats:
            self.setup = replace(self.setup, repeats=repeats)
            (self.folder / RESULT).unlink(missing_ok=True)
            self.write_settings()

    def remember(self, sample: Sample) -> None:
        """Durable when this returns."""
        self.samples.append(sample)
        lines = [json.dumps(durable.finite(s.to_json()), allow_nan=False) for s in self.samples]
        data = "".join(f"{line}\n" for line in lines).encode()
        durable.write_atomically(self.folder / _JOURNAL, data, _AREA)

    @property
    def done(self) -> set[tuple[int, str]]:
        """(block, arm) of the repeats that count."""
        return {(s.block, s.arm) for s in self.samples if s.counted}

    @property
    def blocks(self) -> int:
        """Whole ones."""
        done = [block for block, _ in self.done]
        return sum(done.count(block) == len(self.setup.arms) for block in set(done))

    def write_settings(self) -> None:
        data = durable.json_bytes({"setup": self.setup.to_json(), "record": asdict(self.record)})
        durable.write_atomically(self.folder / SETTINGS, data, _AREA)

    def _drop_unfinished(self) -> None:
        """Of repeats that ran when we were killed: they are done anew."""
        done = self.done
        for cell in self.setup.cells:
            if (cell.block, cell.arm) not in done:
                shutil.rmtree(run_folder(self.setup, cell, self.folder), ignore_errors=True)


def read_setup(folder: Path) -> Setup:
    try:
        return Setup.from_json(durable.read_json(folder / SETTINGS)["setup"])
    except (OSError, KeyError, TypeError):
        raise DataMissing(
            f"{folder} holds no study of ttf ab.",
            hint="Name the folder that ttf ab printed, e.g. runs/ab-001.",
        ) from None


def read_record(folder: Path) -> Record:
    return Record(**durable.read_json(folder / SETTINGS).get("record", {}))


def read_samples(folder: Path) -> list[Sample]:
    path = folder / _JOURNAL
    if not path.exists():
        return []
    return [Sample.from_json(json.loads(line)) for line in path.read_text().splitlines()]


def _machine() -> str:
    """In words: nobody computes with it."""
    from ttf.machine.processor import usable_threads

    threads = usable_threads()
    return (
        f"{platform.system()} {platform.machine()}, {threads} thread{'s' * (threads != 1)}; "
        f"ttf {__version__}, Python {platform.python_version()}"
    )


def is_study(folder: Path) -> bool:
    """Of `ttf ab`; those of `ttf bisect` have no arms."""
    with contextlib.suppress(TtfError):
        return bool(read_setup(folder).arms)
    return False


def same_study(folder: Path, setup: Setup) -> bool:
    with contextlib.suppress(TtfError, ValueError, KeyError, TypeError):
        return read_setup(folder) == setup
    return False


def _refuse_changed(setup: Setup, folder: Path) -> None:
    changed = [arm.toml for arm in setup.arms if sha256_of(Path(arm.toml)) != arm.toml_sha256]
    if changed:
        raise ConfigError(
            f"{', '.join(dict.fromkeys(changed))}: not what it was when the study in {folder} "
            "began.",
            hint="Put it back, or begin a new study.",
        )


# --- carrying it out -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of this sitting; the study itself does not know them."""

    parallel: int = 1
    budget_s: float | None = None
    keep_runs: bool = False


class Watcher(Protocol):
    """Hears of every repeat."""

    def starts(self, study: Study, cell: Cell) -> None: ...

    def ended(self, study: Study, sample: Sample, left_s: float | None) -> None:
        """`left_s`: what the rest of the study is likely to take; None where nobody knows."""

    def says(self, text: str) -> None: ...


def carry_on(
    study: Study, limits: Limits, watcher: Watcher, settled: Callable[[Study], bool]
) -> Reason:
    """Runs what is missing; why it ended. `settled` is asked after every block of a sequential
    study. Raises the error of a repeat that could not run."""
    if limits.parallel > study.record.parallel:
        study.record.parallel = limits.parallel
        study.write_settings()
    return _Sitting(study, limits, watcher, settled).run()


class _Sitting:
    def __init__(
        self,
        study: Study,
        limits: Limits,
        watcher: Watcher,
        settled: Callable[[Study], bool],
    ) -> None:
        self.study, self.limits, self.watcher, self.settled = study, limits, watcher, settled
        self.began = time.monotonic()
        self.voids = 0
        self.cost_told = False

    def run(self) -> Reason:
        study, limits = self.study, self.limits
        arms = len(study.setup.arms)
        while True:
            wave = next_wave(study.setup.cells, study.done, arms, limits.parallel)
            if not wave:
                return "all"
            if study.setup.sequential and self.settled(study):
                return "settled"
            if not self._in_time(wave):
                return "budget"
            carry_out(
                study.setup,
                wave,
                study.folder,
                parallel=limits.parallel,
                keep=limits.keep_runs,
                starts=lambda cell: self.watcher.starts(study, cell),
                ended=self._ended,
            )

    def _ended(self, ended: Ended) -> None:
        sample = ended.sample
        void, classes = sample.outcome == "void", [i.name for i in sample.incidents]
        self.voids = self.voids + 1 if void else 0
        if sample.outcome == "invalid" or (void and not by_chance("void", classes)):
            error = error_of(ended.error, sample.exit_code)
            error.details["repeat"] = {"arm": sample.arm, "block": sample.block}
            raise error
        self.study.remember(sample)
        self.watcher.ended(self.study, sample, self.left_s)
        if self.voids >= MOST_VOID:
            raise GaveUp(
                f"Somebody else ended {self.voids} repeats in a row.",
                hint=f"The evidence is in {self.study.folder / 'runs'}. When the cause is gone: "
                f"ttf ab --resume {self.study.folder}",
            )
        self._tell_cost(ended)

    def _tell_cost(self, ended: Ended) -> None:
        """Once: evaluations against a large bank may take longer than the training."""
        wall_s = ended.sample.wall_s or 0.0
        if not self.cost_told and ended.evaluating_s > _COSTLY * wall_s > 0:
            self.cost_told = True
            self.watcher.says(
                f"Evaluations took {ended.evaluating_s / wall_s:.0%} of that repeat. A study with "
                "--set evaluate.every=end is shorter, and has no recall after equal time."
            )

    # --- time ------------------------------------------------------------------------------------

    @property
    def left_s(self) -> float | None:
        """Until all repeats are done."""
        missing = len(self.study.setup.cells) - len(self.study.done)
        return self._takes(missing)

    def _takes(self, repeats: int) -> float | None:
        known = [s.wall_s for s in self.study.samples if s.counted and s.wall_s is not None]
        if not known:
            return None
        return statistics.fmean(known) * math.ceil(repeats / self.limits.parallel)

    def _in_time(self, wave: Sequence[Cell]) -> bool:
        """A block is begun where it is likely to end in time, and then it is finished: half a pair
        tells nothing."""
        if self.limits.budget_s is None:
            return True
        left_s = self.limits.budget_s - (time.monotonic() - self.began)
        return left_s > 0 and (self._takes(len(wave)) or 0.0) <= left_s
