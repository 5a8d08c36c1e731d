"""Sections that keep a run alive and honest: checkpoints, memory, supervision, probes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from ttf.config.declare import (
    MOST_BYTES,
    Auto,
    Name,
    Pause,
    PauseOrZero,
    Section,
    Steps,
    StepsOrZero,
    Timeout,
    key,
    within,
)
from ttf.text.numbers import parse_bytes


class CheckpointConfig(Section):
    """When the state of the run is saved."""

    every_s: Pause | None = key(
        60.0,
        "time between two checkpoints; none: save only by every_steps and at the end",
        unit="s",
    )
    every_steps: Steps | None = key(
        None, "steps between two checkpoints; none: only by time", unit="optimizer steps"
    )
    keep: Annotated[int, within(2, 1000)] = key(
        2, "intact checkpoints that are kept", unit="checkpoints"
    )
    retry_s: PauseOrZero = key(
        300.0,
        "if the disk is full or fails, the run continues and tries again for this time; 0: the "
        "run stops",
        unit="s",
    )


class SuperviseConfig(Section):
    """What the supervisor does about a process that dies or hangs."""

    max_restarts: Annotated[int, within(0, 1_000_000)] = key(
        5, "restarts in a row without a newer checkpoint", unit="restarts"
    )
    hang_timeout_s: Timeout | Auto = key(
        "auto",
        "a process without a sign of life for this time hangs; auto: 600 s, later 10 times the "
        "longest pause seen in the same phase, but at least 60 s; at least 600 s while the "
        "trainer starts, except in the import of a third-party plugin",
        unit="s",
    )
    remedies: bool = key(
        True, "after a crash, change the configuration if the evidence requires it"
    )
    core: bool = key(
        False,
        "after a crash of the trainer in native code, keep its native stacks (native.txt) and name "
        "the function; needs gdb, and a system that writes core files",
    )


class ProbeConfig(Section):
    """Compares loss and gradients of one micro-batch on the device and on the CPU."""

    every: StepsOrZero = key(
        0,
        "optimizer steps between probes; 0: only at the start, and only if the device requires it",
        unit="optimizer steps",
    )
    tolerance: Annotated[float, Field(gt=0, lt=1)] | Auto = key(
        "auto",
        "largest relative difference; auto: by precision, 0.001 for fp32",
        unit="relative difference",
    )
    on_mismatch: Literal["stop", "cpu"] = key(
        "stop",
        (
            "stop: the run ends with exit code 4; cpu: the run continues on the CPU from its "
            "last checkpoint"
        ),
    )


class MemoryConfig(Section):
    """Memory for work that can be done in smaller parts."""

    budget: Annotated[int, within(0, MOST_BYTES)] | Name = key(
        "auto",
        "memory for mining (blocks, index) and evaluation, e.g. '512MiB'; auto: a quarter of the "
        "memory limit, at least 1 GiB",
        unit="bytes",
    )

    @field_validator("budget")
    @classmethod
    def _budget(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and parse_bytes(value) > MOST_BYTES:
            raise ValueError(f"must be at most {MOST_BYTES} bytes")
        return value
