"""Two hosts on one machine: network and UTS namespaces, joined by a cable that can be cut.

Needs root and the commands `ip`, `tc` and `unshare` on Linux. A partition drops packets with a filter
of classic BPF, which every kernel has; nothing tells either side of it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from tests.kit import slow_cable
from tests.kit.processes import alive

_NETNS: Final = Path("/etc/netns")
ROOT: Final = Path(__file__).parents[2]
_DROP: Final = "1,6 0 0 2"
_LEAVE_S: Final = 10.0
_numbers = itertools.count()

Direction = Literal["both", "from a", "from b"]


def missing() -> str:
    """Why there can be no hosts here; '' if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for command in ("ip", "tc", "unshare"):
        if shutil.which(command) is None:
            return f"there is no command {command}"
    name = f"ttft{os.getpid()}"
    if _tried("ip", "netns", "add", name):
        _tried("ip", "netns", "del", name)
        return ""
    return "this system allows no network namespace"


def _tried(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True, kw_only=True)
class Host:
    name: str  # Of the host, as its processes see it.
    space: str  # Of the network namespace.
    device: str
    address: str

    @property
    def prefix(self) -> list[str]:
        """Before a command that is to run there; it becomes that command by exec."""
        named = f'hostname {self.name} && exec "$@"'
        return ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", named, "sh"]

    def pids(self) -> list[int]:
        return [int(pid) for pid in _run("ip", "netns", "pids", self.space).split()]

    def power_cut(self) -> None:
        """Kills all its processes at once."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Hosts:
    """`with` leaves neither namespaces nor processes. `slow`: the cable is `tests.kit.slow_cable`."""

    def __init__(self, *, slow: bool = False) -> None:
        self._slow = slow
        self._relay: subprocess.Popen[str] | None = None
        number = f"{os.getpid() % 100_000}n{next(_numbers)}"
        self.a, self.b = (
            Host(
                name=f"host-{letter}",
                space=f"ttf{number}{letter}",
                device=slow_cable.DEVICE if slow else f"v{letter}0",
                address=f"10.77.0.{place}",
            )
            for place, letter in ((1, "a"), (2, "b"))
        )

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _make(self) -> None:
        names = (
            f"127.0.0.1 localhost\n{self.a.address} {self.a.name}\n{self.b.address} {self.b.name}\n"
        )
        for host in (self.a, self.b):
            _run("ip", "netns", "add", host.space)
            folder = _NETNS / host.space
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(names)
        if self._slow:
            self._begin_relay()
        else:
            self._join()
        for host in (self.a, self.b):
            _run("ip", "-n", host.space, "addr", "add", f"{host.address}/24", "dev", host.device)
            for device in (host.device, "lo"):
                _run("ip", "-n", host.space, "link", "set", device, "up")
            _run("tc", "-n", host.space, "qdisc", "add", "dev", host.device, "clsact")

    def _join(self) -> None:
        a, b = self.a, self.b
        ends = ["netns", a.space, "type", "veth", "peer", "name", b.device, "netns", b.space]
        _run("ip", "link", "add", a.device, *ends)

    def _begin_relay(self) -> None:
        words = [sys.executable, "-m", "tests.kit.slow_cable", self.a.space, self.b.space]
        self._relay = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._relay.stdout is not None
        assert self._relay.stdout.readline().strip() == slow_cable.READY

    def cut(self, direction: Direction = "both") -> None:
        """Packets are dropped from now on; both sides find that out by themselves."""
        for host, end in ((self.a, "from a"), (self.b, "from b")):
            if direction in ("both", end):
                words = ["tc", "-n", host.space, "filter", "add", "dev", host.device, "egress"]
                _run(*words, "bpf", "da", "bytecode", _DROP)

    def heal(self) -> None:
        for host in (self.a, self.b):
            _tried("tc", "-n", host.space, "filter", "del", "dev", host.device, "egress")

    def _remove(self) -> None:
        for host in (self.a, self.b):
            with contextlib.suppress(AssertionError):
                host.power_cut()
                _gone(host.pids())
            _tried("ip", "netns", "del", host.space)
            shutil.rmtree(_NETNS / host.space, ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody else's are there
            _NETNS.rmdir()
        if self._relay is not None:
            with self._relay as relay:
                relay.kill()


def _gone(pids: list[int]) -> None:
    ends_at = time.monotonic() + _LEAVE_S
    while any(map(alive, pids)) and time.monotonic() < ends_at:
        time.sleep(0.01)


@contextlib.contextmanager
def two_hosts() -> Iterator[Hosts]:
    with Hosts() as hosts:
        yield hosts
