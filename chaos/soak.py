"""One long run with a death every so often: how much of the time was training, and what grew.

    python -m chaos --soak 60

The same run is done undisturbed first: its time is what the disturbed one would have taken. Takes
some 1.7 times as long as asked for.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from chaos.running import Death, Place, Running, kill_and_wait
from chaos.verdict import FATAL, Verdict, incidents, judge_leftovers, last_words, summary_of
from chaos.world import World, records, reference_of

MTBF_S: Final = 20.0
INTERVAL: Final = 200
_CONFIGURATION: Final = "gru-exact"
_CALIBRATION: Final = 2000
_SHARE: Final = 0.7
"""Of the time asked for is training, as planned; the rest goes to deaths."""
_LOOK_EVERY_S: Final = 5.0
_MORE_FDS: Final = 2
_MORE_BYTES: Final = 16 << 20
_SHARED: Final = ("ttf", "torch_", "psm_", "__KMP_")
"""What we, torch, Python and OpenMP call their shared memory."""
_SETTINGS: Final = {
    "miner.refresh": 400,
    "evaluate.every": 1000,
    "checkpoint.every_steps": INTERVAL,
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """At the supervisor."""

    fds: int
    threads: int
    rss: int
    processes: int
    """Of the whole run."""


@dataclass(kw_only=True)
class Soak:
    """What came of it."""

    verdict: Verdict
    steps: int
    undisturbed_s: float
    seconds: float = 0.0
    looks: list[Look] = field(default_factory=list)
    trainer_deaths: int = 0
    miner_deaths: int = 0

    @property
    def effective(self) -> float:
        """Share of the time that an undisturbed run would have needed as well."""
        return self.undisturbed_s / self.seconds if self.seconds else 0.0

    def lines(self) -> list[str]:
        redone = self.verdict.redone or [0]
        return [
            (
                f"{self.steps:,} steps, {self.seconds / 60:.1f} minutes "
                f"({self.undisturbed_s / 60:.1f} undisturbed); {self.trainer_deaths} deaths of the "
                f"trainer and {self.miner_deaths} of the miner's worker, one in {MTBF_S:.0f} s on "
                "average."
            ),
            (
                f"Effective training time {self.effective:.1%}; steps redone: "
                f"{statistics.median(redone):g} (median), {max(redone)} (most); weights equal: "
                f"{'yes' if self.verdict.equal else 'NO'}."
            ),
            of_supervisors(self.looks),
            *(f"NOT WELL: {problem}" for problem in self.verdict.problems),
        ]


def soak(world: World, minutes: float) -> Soak:
    words = _words(world, _CALIBRATION)
    per_step = _undisturbed(Place(root=world.folder / "calibration"), words)[0] / _CALIBRATION
    steps = max(_CALIBRATION, int(minutes * 60 * _SHARE / per_step))
    calm = Place(root=world.folder / "soak-undisturbed")
    wall_s = _undisturbed(calm, _words(world, steps))[1]
    made = Soak(verdict=Verdict(), steps=steps, undisturbed_s=wall_s)
    place = Place(root=world.folder / "soak")
    before = shared_memory()
    began = time.monotonic()
    rng = random.Random(f"{world.seed}/soak")
    words = _placed(_words(world, steps), place)
    with Running(place, words, more=_own_temporary(place)) as running:
        _disturb(running, rng, made)
        code = running.ended()
    made.seconds = time.monotonic() - began
    _judge(made, place, calm, code)
    # Libraries leave caches of their own behind, disturbed or not.
    left = sorted(_temporary(place) - _temporary(calm))
    made.verdict.require(not left, f"temporary files are left: {left}")
    left = sorted(shared_memory() - before)
    made.verdict.require(not left, f"shared memory is left: {left}")
    return made


def _disturb(running: Running, rng: random.Random, made: Soak) -> None:
    """Until the run ends."""
    next_look = 0.0
    next_death = time.monotonic() + rng.expovariate(1 / MTBF_S)
    while not running.over:
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + _LOOK_EVERY_S
            made.looks += look_at(running)
        if time.monotonic() >= next_death:
            next_death = time.monotonic() + rng.expovariate(1 / MTBF_S)
            _strike(running, rng, made)
        running.look_on(0.1)


def _strike(running: Running, rng: random.Random, made: Soak) -> None:
    signum, worker = rng.choice(FATAL), running.worker()
    if rng.random() < 0.25 and worker is not None:
        made.miner_deaths += kill_and_wait(worker, signum)
        return
    death: Death | None = running.kill_trainer(signum, INTERVAL)
    if death is not None:
        made.trainer_deaths += 1
        made.verdict.died([death])


def look_at(running: Running) -> list[Look]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(running.process.pid)
        return [
            Look(
                fds=process.num_fds(),
                threads=process.num_threads(),
                rss=process.memory_info().rss,
                processes=len(running.place.living()),
            )
        ]
    return []


def _judge(made: Soak, place: Place, calm: Place, code: int) -> None:
    verdict, summary = made.verdict, summary_of(place)
    verdict.finished = code == 0 and summary.get("status") == "finished"
    if verdict.require(verdict.finished, f"exit code {code}: {last_words(place)}"):
        steps = [r["step"] for r in records(place.run) if r["type"] == "step"]
        verdict.require(steps == list(range(1, made.steps + 1)), "metrics.jsonl has gaps")
        verdict.equal = (
            reference_of(place.run).weights_sha256 == reference_of(calm.run).weights_sha256
        )
        verdict.require(verdict.equal, "other weights")
        verdict.require(summary["exact"], f"not exact: {summary['deviations']}")
    classes = {i["class"] for i in incidents(place)}
    wanted = {"killed", "segfault", "abort", "bus-error"}
    verdict.require(classes <= wanted, f"incidents {classes}")
    judge_leftovers(verdict, place)
    nothing_grew(made.looks, verdict)


def thirds(looks: Sequence[Look]) -> tuple[Look, Look]:
    """The medians of the first and of the last third; of processes the fewest, because a worker of the
    miner is there from a round to the next death only."""
    third = max(1, len(looks) // 3)
    return _median(looks[:third]), _median(looks[-third:])


def _median(looks: Sequence[Look]) -> Look:
    def of(name: str) -> int:
        return int(statistics.median([getattr(look, name) for look in looks] or [0]))

    fewest = min((look.processes for look in looks), default=0)
    return Look(fds=of("fds"), threads=of("threads"), rss=of("rss"), processes=fewest)


def nothing_grew(looks: Sequence[Look], verdict: Verdict) -> None:
    first, last = thirds(looks)
    verdict.require(last.fds <= first.fds + _MORE_FDS, f"descriptors: {first} to {last}")
    verdict.require(last.threads <= first.threads, f"threads: {first} to {last}")
    verdict.require(last.rss <= first.rss + _MORE_BYTES, f"memory: {first} to {last}")
    verdict.require(last.processes <= first.processes, f"processes: {first} to {last}")


def of_supervisors(looks: Sequence[Look]) -> str:
    first, last = thirds(looks)
    return (
        f"Supervisor, first and last third: {first.fds} and {last.fds} descriptors, "
        f"{first.threads} and {last.threads} threads, {first.rss / 1e6:.0f} and "
        f"{last.rss / 1e6:.0f} MB."
    )


def _words(world: World, steps: int) -> list[str]:
    words = world.words(_CONFIGURATION, Path("OUT"))
    words += ["--steps", str(steps)]
    for key, value in _SETTINGS.items():
        words += ["--set", f"{key}={value}"]
    return words


def _placed(words: Sequence[str], place: Place) -> list[str]:
    return [str(place.run) if word == "OUT" else word for word in words]


def _undisturbed(place: Place, words: Sequence[str]) -> tuple[float, float]:
    """Seconds of training, and of the whole command."""
    began = time.monotonic()
    with Running(place, _placed(words, place), more=_own_temporary(place)) as running:
        flight = running.when(lambda f: f.step > 0)
        first = time.monotonic()
        code = running.ended(timeout_s=1e6)
    if code or flight is None:
        raise RuntimeError(f"The undisturbed run failed: {last_words(place)}")
    return time.monotonic() - first, time.monotonic() - began


def _own_temporary(place: Place) -> dict[str, str]:
    folder = place.root / "tmp"
    folder.mkdir(parents=True)
    return {"TMPDIR": str(folder)}


def _temporary(place: Place) -> set[str]:
    return {path.name for path in (place.root / "tmp").iterdir()}


def shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in names if name.startswith(_SHARED)}
