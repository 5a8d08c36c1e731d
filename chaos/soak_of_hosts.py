"""One long run on two hosts: about every minute a trainer, a supervisor, a host or the cable fails.

    python -m chaos --soak 30 --hosts

A short run that nobody disturbs says how long a step takes; the same run in one process, afterwards,
which weights are right. So it takes some 1.5 times as long as asked for.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chaos.faults.host_death import Node, joined, strike
from chaos.faults.rank_death import CONFIGURATION, SHARDS
from chaos.running import Place, Running
from chaos.soak import Look, look_at, nothing_grew, of_supervisors, shared_memory
from chaos.verdict import Verdict, judge_leftovers, last_words, summary_of
from chaos.world import World, records, reference_of
from tests.kit.hosts import Hosts

MTBF_S: Final = 60.0
TIMEOUT_S: Final = 10
"""How long ranks wait for one another."""
CUTS_S: Final = (2.0, 20.0)
"""The cable: shorter and longer than that."""
_CALIBRATION: Final = 1000
_SHARE: Final = 0.85
_LOOK_EVERY_S: Final = 5.0
_SETTINGS: Final[dict[str, Any]] = {
    "miner.refresh": 2000,
    "evaluate.every": 2000,
    "checkpoint.every_steps": 200,
    "scale.exchange_timeout_s": TIMEOUT_S,
}


@dataclass(kw_only=True)
class SoakOfHosts:
    verdict: Verdict = field(default_factory=Verdict)
    steps: int = 0
    undisturbed_s: float = 0.0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    looks: list[Look] = field(default_factory=list)

    @property
    def effective(self) -> float:
        return self.undisturbed_s / self.seconds if self.seconds else 0.0

    def lines(self) -> list[str]:
        what = ", ".join(f"{count} x {name}" for name, count in sorted(self.failures.items()))
        return [
            (
                f"Two hosts, {self.steps:,} steps, {self.seconds / 60:.1f} minutes "
                f"({self.undisturbed_s / 60:.1f} undisturbed). What failed, once in {MTBF_S:.0f} s on "
                f"average: {what}."
            ),
            (
                f"Effective training time {self.effective:.1%}; weights equal on both hosts: "
                f"{'yes' if self.verdict.equal else 'NO'}."
            ),
            of_supervisors(self.looks),
            *(f"NOT WELL: {problem}" for problem in self.verdict.problems),
        ]


def soak_of_hosts(world: World, minutes: float) -> SoakOfHosts:
    made = SoakOfHosts()
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        nodes = _started(world, hosts, stack, "calm", _CALIBRATION)
        began = _first_step(nodes)
        _until_over(nodes)
        per_step = (time.monotonic() - began) / _CALIBRATION
    made.steps = max(_CALIBRATION, int(minutes * 60 * _SHARE / per_step))
    before = shared_memory()
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        began = time.monotonic()
        nodes = _started(world, hosts, stack, "soak", made.steps)
        started = _first_step(nodes)
        made.undisturbed_s = started - began + made.steps * per_step
        _disturb(nodes, hosts, stack, random.Random(f"{world.seed}/soak"), made)
        codes = [node.running.ended(timeout_s=1e6) for node in nodes]
        made.seconds = time.monotonic() - began
        spaces = [host.space for host in (hosts.a, hosts.b)]
    _judge(world, nodes, codes, made)
    left = sorted(shared_memory() - before)
    made.verdict.require(not left, f"shared memory is left: {left}")
    left = [space for space in spaces if Path("/run/netns", space).exists()]
    made.verdict.require(not left, f"network namespaces are left: {left}")
    return made


def _words(world: World, place: Place, steps: int) -> list[str]:
    words = [*world.words(CONFIGURATION, place.run), *SHARDS, "--steps", str(steps)]
    for key, value in _SETTINGS.items():
        words += ["--set", f"{key}={value}"]
    return words


def _started(world: World, hosts: Hosts, stack: ExitStack, name: str, steps: int) -> list[Node]:
    nodes = []
    for host, letter in ((hosts.a, "a"), (hosts.b, "b")):
        place = Place(root=world.folder / f"{name}-{letter}")
        words = [*_words(world, place, steps), *joined(hosts)]
        running = stack.enter_context(Running(place, words, prefix=host.prefix))
        nodes.append(Node(host=host, place=place, running=running))
    return nodes


def _first_step(nodes: list[Node]) -> float:
    while not all(node.trains(1) for node in nodes):
        if any(node.running.over for node in nodes):
            raise RuntimeError(f"The run failed: {last_words(nodes[0].place)}")
        time.sleep(0.01)
    return time.monotonic()


def _until_over(nodes: list[Node]) -> None:
    for node in nodes:
        if node.running.ended(timeout_s=1e6):
            raise RuntimeError(f"The undisturbed run failed: {last_words(node.place)}")


def _disturb(
    nodes: list[Node], hosts: Hosts, stack: ExitStack, rng: random.Random, made: SoakOfHosts
) -> None:
    """Until the run ends."""
    next_look = 0.0
    next_failure = time.monotonic() + rng.expovariate(1 / MTBF_S)
    while not any(node.running.over for node in nodes):
        now = time.monotonic()
        if now >= next_look:
            next_look = now + _LOOK_EVERY_S
            made.looks += [look for node in nodes for look in look_at(node.running)]
        if now >= next_failure:
            _fail(nodes, hosts, stack, rng, made)
            next_failure = time.monotonic() + rng.expovariate(1 / MTBF_S)
        time.sleep(0.1)


def _fail(
    nodes: list[Node], hosts: Hosts, stack: ExitStack, rng: random.Random, made: SoakOfHosts
) -> None:
    what = rng.choice(["trainer", "trainer", "supervisor", "host", "cable"])
    made.failures[what] += 1
    if what == "cable":
        hosts.cut(rng.choice(["both", "from a", "from b"]))
        time.sleep(rng.uniform(*CUTS_S))
        hosts.heal()
        return
    node = rng.choice(nodes)
    signum = rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
    strike(node, what, hosts, stack, signum)


def _judge(world: World, nodes: list[Node], codes: list[int], made: SoakOfHosts) -> None:
    verdict = made.verdict
    alone = Place(root=world.folder / "alone")
    with Running(alone, _words(world, alone, made.steps)) as running:
        code = running.ended(timeout_s=1e6)
    verdict.require(code == 0, f"the run in one process failed: {last_words(alone)}")
    right = reference_of(alone.run).weights_sha256
    verdict.finished = verdict.equal = True
    for node, code in zip(nodes, codes, strict=True):
        summary = summary_of(node.place)
        well = code == 0 and summary.get("status") == "finished"
        verdict.finished &= verdict.require(well, f"exit code {code}: {last_words(node.place)}")
        if well:
            steps = [r["step"] for r in records(node.place.run) if r["type"] == "step"]
            gapless = steps == list(range(1, made.steps + 1))
            verdict.require(gapless, f"{node.host.name}: metrics.jsonl has not each step once")
            verdict.require(summary["exact"], f"not exact: {summary['deviations']}")
            same = reference_of(node.place.run).weights_sha256 == right
            verdict.equal &= verdict.require(same, f"{node.host.name}: other weights")
        judge_leftovers(verdict, node.place)
    nothing_grew(made.looks, verdict)
