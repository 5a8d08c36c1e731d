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
from ttf.text.numbers import parse_bytes, percent


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
        2,
        "intact checkpoints that are kept; one more where all of them need the same candidate table",
        unit="checkpoints",
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
        5,
        "restarts in a row without a newer checkpoint, and without more of a mining round or "
        "calibration",
        unit="restarts",
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
    """Memory of the whole run, and of the parts of it that can be smaller."""

    limit: Annotated[int, within(1, MOST_BYTES)] | Name = key(
        "auto",
        "what all processes of the run may hold, e.g. '4GiB' or '60%' of the smallest limit of the "
        "machine, the control group and ulimit; ttf makes caches and micro-batches smaller until the "
        "run fits, or refuses it; auto: that smallest limit, and nothing is made smaller before the "
        "start",
        unit="bytes",
    )
    budget: Annotated[int, within(0, MOST_BYTES)] | Name = key(
        "auto",
        "memory for mining (blocks, index) and evaluation, e.g. '512MiB', part of memory.limit; auto: "
        "a quarter of the memory limit, at least 1 GiB",
        unit="bytes",
    )
    read_ahead: Annotated[int, within(1, 1024)] | Auto = key(
        "auto",
        "micro-batches that are read before they are needed; auto: 1, or 2 if a step has several",
        unit="micro-batches",
    )

    @field_validator("budget")
    @classmethod
    def _budget(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and parse_bytes(value) > MOST_BYTES:
            raise ValueError(f"must be at most {MOST_BYTES} bytes")
        return value

    @field_validator("limit")
    @classmethod
    def _limit(cls, value: int | str) -> int | str:
        if isinstance(value, int) or value == "auto":
            return value
        share = percent(value)
        if share is None and not 0 < parse_bytes(value) <= MOST_BYTES:
            raise ValueError(f"must be 1 to {MOST_BYTES} bytes")
        if share is not None and not 0 < share <= 1:
            raise ValueError("must be more than 0% and at most 100%")
        return value
