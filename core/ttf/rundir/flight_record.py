"""The flight recorder: what a process was doing, in a small mapped file that survives the process.

The trainer writes at every change of phase, which costs about a microsecond and no system call; the
supervisor reads the shared pages, also after a death. A reader never waits: a sequence number marks
a record whose writer died while writing; it is read as it is.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, Self

from ttf.errors import ArtifactDamaged
from ttf.host.at_work import PluginWork
from ttf.rundir.confined import read_inside

_SIZE: Final = 4096
_MAGIC: Final = b"ttfflt1\n"
# sequence, step, micro-batch, phase, monotonic ns, unix ns, ns when a checkpoint thread began; times
# are signed, because a clock may stand before 1970
_RECORD: Final = struct.Struct("<QqqBxxxxxxxqqq")
_AT: Final = 64
# The supervisor's part: bytes held by the tree now, and at most.
_HELD: Final = struct.Struct("<QQ")
_HELD_AT: Final = 256
# Total steps of the run; written once, 0 until then and by older versions.
_TOTAL: Final = struct.Struct("<Q")
_TOTAL_AT: Final = 320
# Where and when this process began to train: step, monotonic ns; 0 ns until then.
_BEGAN: Final = struct.Struct("<qq")
_BEGAN_AT: Final = 336
# Where in the run a step lies: micro-batches of the step, steps of an epoch, steps until the next
# mining (all 0: not told), the step and the monotonic ns of the last mining (0 ns: none yet).
_PLACE: Final = struct.Struct("<IIIxxxxqq")
_PLACE_AT: Final = 352
# The plugin at work: length of the text, then JSON.
_PLUGIN: Final = struct.Struct("<H")
_PLUGIN_AT: Final = 384
_PLUGIN_BYTES: Final = 2048
# Nanoseconds of steps that this process spent at the optimizer boundary, and elsewhere: without
# them nobody could tell how many deaths at the boundary chance alone would give.
_SPENT: Final = struct.Struct("<qq")
_SPENT_AT: Final = 2560
# Bytes of the device, and when they were read in monotonic ns (0: the device has none).
_DEVICE: Final = struct.Struct("<QQq")
_DEVICE_AT: Final = 2576
# How much of long work between two steps is on the disk, where the next process goes on.
_KEPT: Final = struct.Struct("<Q")
_KEPT_AT: Final = 2608


class Phase(IntEnum):
    """What the trainer is doing; incidents and messages use `name.lower()`."""

    START = 0
    DATA = 1
    FORWARD = 2
    BACKWARD = 3
    OPTIMIZER = 4
    MINING = 5
    CHECKPOINT = 6
    EVALUATE = 7
    PROBE = 8
    END = 9
    CALIBRATE = 10
    EXCHANGE = 11


# In these phases a trainer works on a micro-batch.
IN_A_STEP: Final = frozenset({"data", "forward", "backward", "optimizer"})


@dataclass(frozen=True, kw_only=True)
class Flight:
    step: int  # Optimizer steps done.
    micro_batch: int
    phase: str
    monotonic_s: float  # Time of the record, on a clock that all processes of the machine share.
    time: float
    # Since when the checkpoint thread has worked on one checkpoint; None while it is idle.
    saving_since_s: float | None
    torn: bool  # The writer died while writing.
    total_steps: int = 0  # 0: the trainer has not counted them (yet).
    began_step: int = 0  # This process trains from this step on.
    began_s: float | None = None  # Since when; None: it has not begun.
    plugin: PluginWork | None = None  # The plugin at work, where that was noted.
    micro_batches: int = 0  # Of the current step; 0: it has none yet, or an older version wrote.
    steps_per_epoch: int = 0  # 0: not told.
    mined_step: int = 0  # At this step was the last mining ...
    mined_s: float | None = None  # ... which ended then; None: this process has not mined.
    at_boundary_s: float = 0.0  # Time of steps in the first and last micro-batch and the update,
    in_between_s: float = 0.0  # and in the others.
    mined_for: int = 0  # Steps until the next mining is due, counted from `mined_step`.
    allocated: int | None = None  # Bytes of the device; None: it has no memory of its own.
    cached: int | None = None  # All that torch took from it.
    # How much of an unfinished mining round or calibration is on the disk; comparable within one.
    kept_work: int = 0

    @property
    def batch_of_epoch(self) -> int | None:
        """Number of the micro-batch in its epoch, from 1; None if it cannot be told."""
        if not (self.steps_per_epoch and self.micro_batches):
            return None
        return self.step % self.steps_per_epoch * self.micro_batches + self.micro_batch + 1


class FlightRecorder:
    """The writer's side. Without a path (an unsupervised run) it records nothing on disk."""

    def __init__(self, path: Path | None) -> None:
        self._map: mmap.mmap | bytearray
        self._map = bytearray(_SIZE) if path is None else _mapped(path)
        self._sequence = 0
        self._step = 0
        self._phase = Phase.START
        self._micro_batch = 0
        self._saving_since = 0
        self._place = [0, 0, 0, 0, 0]
        self._spent = [0, 0]
        self._since = time.monotonic_ns()
        self.beat()

    def enter(self, phase: Phase, step: int | None = None, micro_batch: int | None = None) -> None:
        """Called by one thread, at every change of phase. A step begins with micro-batch 0; a
        phase without a number belongs to the micro-batch before it."""
        self._count_time()
        if step is not None:
            self._step = step
            self._micro_batch = 0
        if micro_batch is not None:
            self._micro_batch = micro_batch
        self._phase = phase
        self.beat()

    def beat(self) -> None:
        """A sign of life within a phase."""
        self._sequence += 1
        _RECORD.pack_into(
            self._map,
            _AT,
            2 * self._sequence + 1,  # odd: being written
            self._step,
            self._micro_batch,
            self._phase,
            time.monotonic_ns(),
            time.time_ns(),
            self._saving_since,
        )
        struct.pack_into("<Q", self._map, _AT, 2 * self._sequence)

    def device_holds(self, memory: Mapping[str, int]) -> None:
        """`memory`: as `DevicePolicy.memory` gives it; empty for a device without its own."""
        if "allocated" in memory:
            cached = memory.get("reserved", memory.get("driver", memory["allocated"]))
            values = (memory["allocated"], cached, time.monotonic_ns())
            _DEVICE.pack_into(self._map, _DEVICE_AT, *values)

    def keeps(self, work: int) -> None:
        """How much of a mining round, or of the calibration, the next process would not repeat; 0
        when it is over."""
        _KEPT.pack_into(self._map, _KEPT_AT, work)

    def takes(self, total_steps: int) -> None:
        _TOTAL.pack_into(self._map, _TOTAL_AT, total_steps)

    def _count_time(self) -> None:
        # Of the phase that ends now.
        now = time.monotonic_ns()
        count = self._place[0]
        if count and Phase.DATA <= self._phase <= Phase.OPTIMIZER:
            edge = self._phase == Phase.OPTIMIZER or self._micro_batch in (0, count - 1)
            self._spent[not edge] += now - self._since
            _SPENT.pack_into(self._map, _SPENT_AT, *self._spent)
        self._since = now

    def divides(self, *, micro_batches: int) -> None:
        """Called at every step: its last one may have fewer."""
        if micro_batches != self._place[0]:
            self._place[0] = micro_batches
            self._tell_place()

    def epochs_have(self, steps: int) -> None:
        self._place[1] = steps
        self._tell_place()

    def mined(self, step: int, until: int) -> None:
        """Called when a mining is done; the next is due at step `until`."""
        self._place[2:] = [max(0, until - step), step, time.monotonic_ns()]
        self._tell_place()

    def _tell_place(self) -> None:
        _PLACE.pack_into(self._map, _PLACE_AT, *self._place)

    def begins(self, step: int) -> None:
        """Called when everything is ready, right before the first step of this process."""
        _BEGAN.pack_into(self._map, _BEGAN_AT, step, time.monotonic_ns())

    def plugin_at_work(self, work: PluginWork | None) -> None:
        """Also a sign of life. None: no plugin is at work any more."""
        text = b"" if work is None else json.dumps(asdict(work)).encode()
        if len(text) > _PLUGIN_BYTES:  # a name longer than any package index takes
            text = b""
        _PLUGIN.pack_into(self._map, _PLUGIN_AT, 0)
        start = _PLUGIN_AT + _PLUGIN.size
        self._map[start : start + len(text)] = text
        _PLUGIN.pack_into(self._map, _PLUGIN_AT, len(text))
        self.beat()

    def saving(self, active: bool) -> None:
        """Called by the checkpoint thread: its hang must not be hidden by steps that go on."""
        self._saving_since = time.monotonic_ns() if active else 0
        self.beat()

    def read(self) -> Flight:
        """The writer's own record, for an incident of a child."""
        return _decode(self._map)

    @property
    def peak_bytes(self) -> int:
        """Most memory the supervisor has seen the tree hold; 0 without a supervisor."""
        return int(_HELD.unpack_from(self._map, _HELD_AT)[1])

    @property
    def held_bytes(self) -> int:
        return int(_HELD.unpack_from(self._map, _HELD_AT)[0])


class FlightReader:
    """The supervisor's side. Makes the file, so that a death before the first record differs from a
    run that was never supervised. The file of an earlier process must be gone: that process may
    still map its pages."""

    def __init__(self, path: Path) -> None:
        self._map = _mapped(path)

    def read(self) -> Flight:
        return _decode(self._map)

    def tell_memory(self, held: int, peak: int) -> None:
        """For the trainer's screen and its summary."""
        _HELD.pack_into(self._map, _HELD_AT, held, peak)

    def close(self) -> None:
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_flight(path: Path) -> Flight | None:
    """The last record in a run's file; None if there is no such file or it has another format."""
    try:
        data = read_inside(path, path.parent, _SIZE)
    except (FileNotFoundError, ArtifactDamaged):
        return None
    return _decode(data) if data[: len(_MAGIC)] == _MAGIC and len(data) == _SIZE else None


def _decode(data: bytes | bytearray | mmap.mmap) -> Flight:
    sequence, step, micro, phase, mono, unix, saving = _RECORD.unpack_from(data, _AT)
    began_step, began = _BEGAN.unpack_from(data, _BEGAN_AT)
    at_boundary, in_between = _SPENT.unpack_from(data, _SPENT_AT)
    micro_batches, per_epoch, mined_for, mined_step, mined = _PLACE.unpack_from(data, _PLACE_AT)
    allocated, cached, read_at = _DEVICE.unpack_from(data, _DEVICE_AT)
    known = phase in Phase._value2member_map_
    return Flight(
        step=step,
        micro_batch=micro,
        phase=Phase(phase).name.lower() if known else f"phase {phase}",
        monotonic_s=mono / 1e9,
        time=unix / 1e9,
        saving_since_s=saving / 1e9 if saving else None,
        torn=bool(sequence % 2) or not known,
        total_steps=_TOTAL.unpack_from(data, _TOTAL_AT)[0],
        began_step=began_step,
        began_s=began / 1e9 if began else None,
        plugin=_plugin(data),
        micro_batches=micro_batches,
        steps_per_epoch=per_epoch,
        mined_step=mined_step,
        mined_s=mined / 1e9 if mined else None,
        mined_for=mined_for,
        at_boundary_s=at_boundary / 1e9,
        in_between_s=in_between / 1e9,
        allocated=allocated if read_at else None,
        cached=cached if read_at else None,
        kept_work=_KEPT.unpack_from(data, _KEPT_AT)[0],
    )


def _plugin(data: bytes | bytearray | mmap.mmap) -> PluginWork | None:
    (length,) = _PLUGIN.unpack_from(data, _PLUGIN_AT)
    start = _PLUGIN_AT + _PLUGIN.size
    if not 0 < length <= _PLUGIN_BYTES:
        return None
    try:
        return PluginWork(**json.loads(bytes(data[start : start + length])))
    except (ValueError, TypeError):  # its writer died while writing
        return None


def _mapped(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    try:
        # Allocated, not sparse: writing through a map on a full disk is SIGBUS.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, _SIZE)
        else:
            os.ftruncate(fd, _SIZE)
        mapped = mmap.mmap(fd, _SIZE)
    finally:
        os.close(fd)
    mapped[: len(_MAGIC)] = _MAGIC
    return mapped
