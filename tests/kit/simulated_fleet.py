"""Fleets for the simulation of many nodes: what they are, what they met, and some that are hit hard."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from ttf.training.plan import scale

DAY_S: Final = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The nodes, their network and the run. Rates are per day; durations are means of exponential
    distributions where they say so."""

    nodes: int
    step_s: float = 2.0
    deaths_per_node_day: float = 6.5e-3
    silent: float = 1.0  # share of deaths that only the time limit of the exchange notices
    notice_s: float = 0.05  # of the others: a closed connection
    absent_s: float = 0.0  # mean, until a dead node or another in its place is there
    partitions_per_day: float = 0.0
    partition_s: float = 30.0  # mean
    stragglers_per_day: float = 0.0
    straggler_s: float = 600.0  # mean
    slowdown: float = 3.0  # of the whole run, while one rank is slow
    exchange_timeout_s: float = 60.0
    join_s: float = 300.0
    patience_s: float = 3600.0
    restart_s: float = 6.0
    every_s: float = 60.0  # checkpoint.every_s
    snapshot_s: float = 0.05  # what a checkpoint beside the training delays it
    save_s: float = 0.3  # until it is durable
    max_restarts: int = 5
    beat_s: float = 10.0  # one sign of life stands for the steps between


@dataclass(frozen=True, kw_only=True)
class Outcome:
    ended: str  # 'finished', 'gave up', 'error', 'lost patience', 'time'
    stuck: str  # why no progress can follow; '' if it can, or the run is over
    wall_s: float
    useful_s: float  # time of the steps that count
    steps: int
    deaths: int
    spawns: int
    deciders_lost: int

    @property
    def goodput(self) -> float:
        return self.useful_s / self.wall_s if self.wall_s else 0.0


def expected_goodput(fleet: Fleet) -> float:
    """By the formulas of the plan, for deaths alone."""
    noticed_s = fleet.silent * fleet.exchange_timeout_s + (1 - fleet.silent) * fleet.notice_s
    mtbf = scale.mtbf_s(fleet.nodes, fleet.deaths_per_node_day)
    restart_s = noticed_s + fleet.absent_s + fleet.restart_s
    return 1 - scale.waste(fleet.snapshot_s, fleet.every_s, mtbf, restart_s)


def harsh(seed: int) -> tuple[Fleet, float]:
    """A short run that is hit often, and its steps: from one death in many runs to several in each
    start. For livelocks."""
    draw = random.Random(f"harsh {seed}")

    def between(least: float, most: float) -> float:
        return math.exp(draw.uniform(math.log(least), math.log(most)))

    step_s, steps = between(0.01, 20), between(50, 2000)
    restart_s, timeout_s = between(1, 60), between(1, 120)
    nodes = draw.choice([1, 2, 3, 5, 8, 64])
    # Mean time between deaths, in units of what a death costs.
    mtbf = (restart_s + timeout_s) * between(0.3, 300)
    fleet = Fleet(
        nodes=nodes,
        step_s=step_s,
        deaths_per_node_day=DAY_S / mtbf / nodes,
        silent=draw.random(),
        absent_s=draw.choice([0.0, between(1, 3000)]),
        partitions_per_day=draw.choice([0.0, DAY_S / mtbf]),
        partition_s=between(1, 300),
        stragglers_per_day=draw.choice([0.0, DAY_S / mtbf]),
        straggler_s=between(1, 600),
        slowdown=between(1.1, 100),
        exchange_timeout_s=timeout_s,
        restart_s=restart_s,
        every_s=between(0.5, 120),
        save_s=between(0.05, 5),
        max_restarts=draw.choice([0, 1, 5]),
        beat_s=max(step_s, steps * step_s / 200),
    )
    return fleet, float(int(steps))
