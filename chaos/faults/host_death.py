"""Two hosts train one run; hosts, supervisors and trainers of either die at random moments."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from chaos.campaign import Case, Fault
from chaos.faults.rank_death import CONFIGURATION, SHARDS, one_process
from chaos.running import Place, Running
from chaos.verdict import Verdict, judge_end, summary_of
from chaos.world import STEPS
from tests.kit.hosts import Host, Hosts, missing
from tests.kit.processes import children_of
from tests.kit.several import writes

from ttf.rundir.flight_record import Flight, read_flight

BLOWS: Final = 3
"""In each run."""
PORT: Final = 29_400
BACK_S: Final = 15.0
"""Within so long both train again, on a machine that has nothing else to do."""
_LONGEST_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.005


@dataclass(kw_only=True)
class Node:
    host: Host
    place: Place
    running: Running

    def flight(self) -> Flight | None:
        return read_flight(self.place.run / "flight.bin")

    def trains(self, step: int) -> bool:
        flight = self.flight()
        return flight is not None and flight.began_s is not None and flight.step >= step

    def trainer(self) -> int | None:
        found = children_of(self.running.pid)
        return next((pid for pid in found if writes(pid, self.place.run)), None)


def run(case: Case) -> Verdict:
    verdict = Verdict()
    reference = case.world.once("reference of ranks", lambda: one_process(case))
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        nodes = []
        for host, name in ((hosts.a, "a"), (hosts.b, "b")):
            place = case.place(name)
            words = [*case.world.words(CONFIGURATION, place.run), *SHARDS, *joined(hosts)]
            running = stack.enter_context(Running(place, words, prefix=host.prefix))
            nodes.append(Node(host=host, place=place, running=running))
        for blow in range(BLOWS):
            least = int(case.rng.uniform(blow + 0.1, blow + 0.8) * STEPS / BLOWS)
            if not _until(lambda least=least: all(n.trains(least) for n in nodes), nodes):  # type: ignore[misc]
                break
            node, what = case.rng.choice(nodes), case.rng.choice(["trainer", "supervisor", "host"])
            if strike(node, what, hosts, stack):
                verdict.deaths += 1
                verdict.phases[f"{what} of host {node.host.name}"] += 1
                _see_them_back(nodes, node, verdict)
        codes = [node.running.ended() for node in nodes]
    for node, code in zip(nodes, codes, strict=True):
        judge_end(verdict, node.place, code, reference)
    named = [incident["class"] for incident in summary_of(nodes[0].place).get("incidents", [])]
    verdict.incidents_right = "peer-lost" in named or not named or "killed" in named
    return verdict


def joined(hosts: Hosts) -> list[str]:
    return ["--nodes", "2", "--rendezvous", f"{hosts.a.address}:{PORT}"]


def strike(
    node: Node, what: str, hosts: Hosts, stack: ExitStack, signum: int = signal.SIGKILL
) -> bool:
    """Ends the trainer, the supervisor or the host, and starts what nobody else starts again. False:
    there is no trainer now."""
    if what == "trainer":
        pid = node.trainer()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
        return True
    if what == "supervisor":
        node.running.send(signal.SIGKILL)
    else:
        node.host.power_cut()
    node.running.process.wait()
    words = ["resume", str(node.place.run), *joined(hosts)]
    node.running = stack.enter_context(Running(node.place, words, prefix=node.host.prefix))
    return True


def _see_them_back(nodes: list[Node], struck: Node, verdict: Verdict) -> None:
    flight, began = struck.flight(), time.monotonic()
    before = 0.0 if flight is None else flight.monotonic_s
    _until(lambda: all(_anew(each, before) for each in nodes), nodes)
    verdict.saw(back_s=round(time.monotonic() - began, 1))


def _anew(node: Node, before: float) -> bool:
    """It trains in a process that began after that moment."""
    flight = node.flight()
    return flight is not None and flight.began_s is not None and flight.began_s > before


def _until(seen: Callable[[], bool], nodes: list[Node]) -> bool:
    ends_at = time.monotonic() + _LONGEST_S
    while time.monotonic() < ends_at and not any(node.running.over for node in nodes):
        if seen():
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


FAULT: Final = Fault(
    name="host-death",
    title="two hosts: a trainer, a supervisor or a whole host of either killed at random moments",
    runs=20,
    quick=1,
    run=run,
    why_not=missing,
)
