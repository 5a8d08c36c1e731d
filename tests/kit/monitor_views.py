"""A view as a run in its third epoch gives it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from ttf.machine.memory.tree import TreeMemory
from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.processes import Process
from ttf.tools.monitor.view import Evaluated, Happened, Run, Saved, View

PROCESS: Final = Process(
    pid=1234,
    role="supervisor",
    command="ttf train",
    anon=12_000_000,
    shared=0,
    file=11_000_000,
    cpu_percent=1.0,
    threads=1,
    state="sleeping",
)
RUN: Final = Run(
    folder=Path("runs/run-001"),
    step=12345,
    total_steps=50000,
    epoch=3,
    phase="mining",
    phase_s=12.5,
    since_before=False,
    silent_s=0.2,
    last_sign_s=None,
    saving_s=None,
    samples_per_s=1234.0,
    loss=3.2911,
    loss_smoothed=3.3101,
    losses=tuple(5 - i / 200 for i in range(400)),
    seconds_left=725.0,
    evaluated=Evaluated(step=12000, metrics={"recall@1": 0.2, "recall@10": 0.442, "mrr@10": 0.3}),
    checkpoint=Saved(step=12300, age_s=42.0),
    restarts=1,
    incidents=(Happened(id="001", name="segfault", process="trainer", remedy=None, age_s=190.0),),
    free_disk=12_300_000_000,
    ended=None,
)
VIEW: Final = View(
    time=1.8e9,
    name="runs/run-001",
    pid=1234,
    processes=(
        PROCESS,
        dataclasses.replace(
            PROCESS, pid=1235, role="trainer", anon=1_300_000_000, cpu_percent=198.0, threads=14
        ),
        dataclasses.replace(PROCESS, pid=1240, role="miner worker", anon=188_000_000),
    ),
    memory=TreeMemory(anon=1_500_000_000, shared=2_000_000, file=307_000_000, processes=3),
    limit=NearestLimit(
        bytes=8_000_000_000,
        source="cgroup /job (memory.max)",
        held=4_000_000_000,
        share=0.5,
        rising=True,
        slope_per_s=2_000_000.0,
        seconds_left=2000.0,
    ),
    history=tuple((1.8e9 - 300 + i, 1e9 + i * 2e6) for i in range(300)),
    run=RUN,
    remarks=(),
)
