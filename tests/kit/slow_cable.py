"""A cable between two network namespaces that is slow, far and lossy, in either direction.

A process that reads packets from a TUN device of each side and writes them to the other one, later or
never; kernels without netem have nothing else. `python -m tests.kit.slow_cable SPACE_A SPACE_B` ends when
its standard input does.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DEVICE: Final = "wan0"
DELAY_S: Final = 0.020
JITTER_S: Final = 0.005
LOSS: Final = 0.02
BYTES_PER_S: Final = 100e6 / 8
_QUEUE_S: Final = 0.1
"""What waits longer for its turn is dropped, as by a router."""
_SET_INTERFACE: Final = 0x400454CA
_TUN_WITHOUT_HEADER: Final = 0x0001 | 0x1000
_PACKET: Final = 65536
READY: Final = "ready"


def opened(space: str) -> int:
    """A new device in a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(Path("/var/run/netns", space), os.O_RDONLY)
    try:
        assert libc.setns(other, 0) == 0, os.strerror(ctypes.get_errno())
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        asked = struct.pack("16sH", DEVICE.encode(), _TUN_WITHOUT_HEADER)
        fcntl.ioctl(device, _SET_INTERFACE, asked)
        assert libc.setns(own, 0) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(own)
        os.close(other)
    return device


@dataclass(kw_only=True)
class Way:
    """One direction. Packets keep their order, so that a late one delays those behind it."""

    source: int
    target: int
    draw: random.Random
    free_at: float = 0.0
    under_way: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        for _ in range(64):
            try:
                packet = os.read(self.source, _PACKET)
            except BlockingIOError:
                return
            now = time.monotonic()
            begin = max(now, self.free_at)
            if self.draw.random() < LOSS or begin - now > _QUEUE_S:
                continue
            self.free_at = begin + len(packet) / BYTES_PER_S
            due = self.free_at + DELAY_S + self.draw.uniform(-JITTER_S, JITTER_S)
            last = self.under_way[-1][0] if self.under_way else 0.0
            self.under_way.append((max(due, last), packet))

    def give(self) -> None:
        while self.under_way and self.under_way[0][0] <= time.monotonic():
            _, packet = self.under_way.popleft()
            try:
                os.write(self.target, packet)
            except OSError:  # its buffer is full, or the side is down: a packet is lost
                continue


def relay(a: int, b: int) -> None:
    draw = random.Random(11)
    ways = [Way(source=a, target=b, draw=draw), Way(source=b, target=a, draw=draw)]
    while True:
        due = min((way.under_way[0][0] for way in ways if way.under_way), default=None)
        wait_s = None if due is None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([a, b, sys.stdin], [], [], wait_s)
        if sys.stdin in ready:
            return
        for way in ways:
            if way.source in ready:
                way.take()
            way.give()


if __name__ == "__main__":
    devices = [opened(space) for space in sys.argv[1:]]
    print(READY, flush=True)
    relay(*devices)
