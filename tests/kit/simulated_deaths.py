"""Histories of deaths whose cause is known: at the optimizer boundary, by age, by memory, random.

`python -m tests.kit.simulated_deaths [COUNT]` prints how often the verdict is right.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from ttf.tools.runs.deaths import Deaths, DeathSeen
from ttf.tools.runs.pattern import pattern_of

ACCUMULATE = 16
UPDATE = 1.0  # The weight update takes as long as a micro-batch.
SHARE = (2 + UPDATE) / (ACCUMULATE + UPDATE)
MEAN_S = 900.0
WINDOW = 400  # Steps between two minings.
MICRO_S = 0.05
STARTUP_S = 600.0  # Makes all ages alike; a test that counted it would find a tie to time.


def random_history(seed: int, *, fewest: int = 6, most: int = 12) -> Deaths:
    """Processes that die at any moment with the same probability, at a place that does not matter.
    Memory grows with age and has a plateau."""
    rng = random.Random(seed)
    ages = [rng.expovariate(1 / MEAN_S) for _ in range(rng.randint(fewest, most))]
    return _history(rng, ages, [rng.uniform(0, ACCUMULATE + UPDATE) for _ in ages])


def boundary_history(
    seed: int, *, fewest: int = 6, most: int = 12, strikes: float = 0.85
) -> Deaths:
    """A fault of the boundary: `strikes` of the deaths are there, the others anywhere."""
    rng = random.Random(seed)
    ages = [rng.expovariate(1 / MEAN_S) for _ in range(rng.randint(fewest, most))]
    edge = [ACCUMULATE - 1 + rng.uniform(0, 2 + UPDATE) for _ in ages]
    anywhere = [rng.uniform(0, ACCUMULATE + UPDATE) for _ in ages]
    return _history(
        rng,
        ages,
        [a if rng.random() < strikes else b for a, b in zip(edge, anywhere, strict=True)],
    )


def aging_history(seed: int) -> Deaths:
    """Something fills up: all processes die at nearly the same age."""
    rng = random.Random(seed)
    ages = [rng.gauss(MEAN_S, MEAN_S / 8) for _ in range(rng.randint(6, 12))]
    return _history(rng, ages, [rng.uniform(0, ACCUMULATE + UPDATE) for _ in ages])


def spiking_history(seed: int) -> Deaths:
    """Deaths at spikes of memory, which come at any age."""
    rng = random.Random(seed)
    history = random_history(seed)
    spikes = [rng.randrange(4_000, 6_000) for _ in range(len(history.memory_bytes) // 20)]
    deaths = [
        replace(death, memory_bytes=rng.randrange(4_500, 6_000)) if rng.random() < 0.9 else death
        for death in history.deaths
    ]
    return replace(history, deaths=tuple(deaths), memory_bytes=(*history.memory_bytes, *spikes))


def _history(rng: random.Random, ages: list[float], positions: list[float]) -> Deaths:
    deaths: list[DeathSeen] = []
    memory: list[int] = []
    for age, position in zip(ages, positions, strict=True):
        curve = [_held(rng, at) for at in range(0, int(age) + 1, 5)]
        memory += curve
        step = int(age / (MICRO_S * (ACCUMULATE + UPDATE)))
        place = position % (ACCUMULATE + UPDATE)
        update = place >= ACCUMULATE
        deaths.append(
            DeathSeen(
                run="runs/run-001",
                id=f"{len(deaths) + 1:03d}",
                name="segfault",
                process="trainer",
                time=1.8e9 + age,
                phase="optimizer" if update else rng.choice(["forward", "backward"]),
                step=step,
                micro_batch=min(ACCUMULATE, int(place) + 1),
                micro_batches=ACCUMULATE,
                boundary_share=SHARE,
                age_s=age + STARTUP_S,
                trained_s=age,
                since_mining_s=step % WINDOW * MICRO_S * (ACCUMULATE + UPDATE),
                since_mining_steps=step % WINDOW,
                mined_for_steps=WINDOW,
                memory_bytes=curve[-1],
            )
        )
    return Deaths(deaths=tuple(deaths), memory_bytes=tuple(memory), runs=1)


def _held(rng: random.Random, age: float) -> int:
    return int(min(2_000, 500 + 10 * age) + rng.uniform(0, 300))


def _rates(count: int) -> None:
    random_ = [pattern_of(random_history(1000 + seed)).tied_to for seed in range(count)]
    print(f"random, called tied to anything: {sum(map(bool, random_)) / count:.2%}")
    for strikes in (0.6, 0.7, 0.85, 1.0):
        histories = (boundary_history(seed, strikes=strikes) for seed in range(count))
        found = sum("boundary" in pattern_of(history).tied_to for history in histories)
        print(f"{strikes:.0%} at the boundary, found: {found / count:.1%}")
    for make, name in ((aging_history, "time"), (spiking_history, "memory")):
        found = sum(name in pattern_of(make(seed)).tied_to for seed in range(count))
        print(f"tied to {name}, found: {found / count:.1%}")


if __name__ == "__main__":
    _rates(int(sys.argv[1]) if sys.argv[1:] else 400)
