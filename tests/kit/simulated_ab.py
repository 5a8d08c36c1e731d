"""Studies without runs: drawn from recorded samples, or from a generator that resembles them.

A recorded file (`recorded/*.jsonl`, or a .json list) is the samples.jsonl of a study of one
configuration against itself. A study draws whole blocks of it and gives the labels out at random, as
the schedule does, so drift and heavy tails come as they were.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ttf.rundir.typed_json import dataclass_from
from ttf.tools.ab.sample import EvalPoint, RepeatIncident, Sample

STEPS = 2_000
Blocks = list[list[Sample]]
Change = Callable[[Sample, np.random.Generator], Sample]


def recorded(path: Path) -> Blocks:
    blocks: dict[int, list[Sample]] = {}
    text = path.read_text("utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else []
    for values in map(json.loads, lines) if lines else json.loads(text):
        sample = dataclass_from(Sample, values)
        if sample.counted:
            blocks.setdefault(sample.block, []).append(sample)
    return [block for block in blocks.values() if len(block) > 1]


def generated(blocks: int, seed: int, crash: float = 0.1) -> Blocks:
    """Two repeats a block: the machine drifts from block to block and hiccups now and then (heavy
    tails), quality goes with the seed and differs a little between repeats, as threads make it."""
    rng = np.random.default_rng(seed)
    drift, pool = 0.0, []
    for block in range(blocks):
        drift = 0.8 * drift + rng.normal(0, 0.03)
        quality = 0.4 + rng.normal(0, 0.012)
        pool.append([_repeat(rng, block, drift, quality, crash) for _ in range(2)])
    return pool


def drawn(
    pool: Blocks,
    arms: Sequence[str],
    repeats: int,
    rng: np.random.Generator,
    change: Change | None = None,
) -> list[Sample]:
    """A study in which all arms are one configuration; `change` is made to the last arm."""
    samples = []
    for block in range(repeats):
        beside: list[Sample] = []
        while len(beside) < len(arms):  # more arms than were recorded beside each other
            beside += pool[rng.integers(len(pool))]
        order = rng.permutation(len(beside))[: len(arms)]
        for place, (arm, which) in enumerate(zip(arms, order, strict=True)):
            sample = replace(beside[which], arm=arm, block=block, position=place)
            samples.append(change(sample, rng) if change and arm == arms[-1] else sample)
    return samples


def faster(by: float) -> Change:
    def change(sample: Sample, rng: np.random.Generator) -> Sample:
        speed = sample.samples_per_s
        return replace(
            sample,
            samples_per_s=None if speed is None else speed * (1 + by),
            evaluated=tuple(replace(e, seconds=e.seconds / (1 + by)) for e in sample.evaluated),
        )

    return change


def better(by: float) -> Change:
    """In recall, at the end and on the way."""

    def raised(metrics: dict[str, float]) -> dict[str, float]:
        return {k: v + by if k.startswith("recall") else v for k, v in metrics.items()}

    def change(sample: Sample, rng: np.random.Generator) -> Sample:
        return replace(
            sample,
            metrics=raised(dict(sample.metrics)),
            evaluated=tuple(replace(e, metrics=raised(dict(e.metrics))) for e in sample.evaluated),
        )

    return change


def crashing(chance: float) -> Change:
    """Instead of its own crashes; it survives all of them, so that the rest is as it was."""

    def change(sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= chance:
            return replace(sample, outcome="clean", incidents=())
        incident = RepeatIncident(name="segfault", process="trainer", step=int(rng.integers(STEPS)))
        return replace(sample, outcome="survived", incidents=(incident,))

    return change


def _repeat(
    rng: np.random.Generator, block: int, drift: float, quality: float, crash: float
) -> Sample:
    hiccup = rng.exponential(0.06) if rng.random() < 0.1 else 0.0
    speed = 900 * math.exp(drift + rng.normal(0, 0.025) - hiccup)
    quality += rng.normal(0, 0.008)
    incidents: tuple[RepeatIncident, ...] = ()
    lost = False
    if rng.random() < crash:
        step = int(rng.integers(STEPS))
        incidents, lost = (RepeatIncident(name="segfault", process="miner", step=step),), step < 700
    steps = incidents[0].step if lost else STEPS
    marks = range(200, steps + 1, 200)
    evaluated = tuple(
        EvalPoint(
            step=step,
            seconds=64 * step / speed + 5,
            metrics={
                "recall@10": quality * (1 - math.exp(-step / 600)) + rng.normal(0, 0.002),
                "mrr@10": 0.6 * quality * (1 - math.exp(-step / 600)) + rng.normal(0, 0.002),
            },
        )
        for step in marks
    )
    return Sample(
        arm="",
        block=block,
        position=0,
        seed=block,
        outcome="lost" if lost else "survived" if incidents else "clean",
        incidents=incidents,
        steps=steps,
        wall_s=64 * steps / speed + 5,
        samples_per_s=None if lost else speed,
        peak_anon_mb=800 * math.exp(rng.normal(0, 0.004) + max(0.0, rng.normal(0, 0.01))),
        memory_slope_mb_per_1k_steps=rng.normal(0.3, 0.2) + rng.standard_t(3) * 0.1,
        metrics={} if lost else evaluated[-1].metrics,
        evaluated=evaluated,
        loss=tuple(
            (float(x), 2 * math.exp(-x / 500) + 1 - quality + rng.normal(0, 0.02))
            for x in range(50, steps + 1, 50)
        ),
    )
