"""Two hosts on one machine: a network and a UTS namespace each, and a cable between them.

For root on Linux; skips the test elsewhere. Everything is named after this process and is removed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

_NUMBERS: Final = itertools.count(1)
_ETC: Final = Path("/etc/netns")
# Drops TCP packets that open a connection; answers pass.
NO_NEW_CONNECTIONS: Final = (
    "9,40 0 0 12,21 0 5 2048,48 0 0 23,21 0 3 6,48 0 0 47,84 0 0 18,21 1 0 2,6 0 0 0,6 0 0 2"
)


@dataclass(frozen=True, kw_only=True)
class Host:
    """`space`: its network namespace."""

    name: str
    space: str
    address: str
    interface: str

    def start(self, argv: Sequence[str | Path], **more: Any) -> subprocess.Popen[str]:
        inside = f'hostname {self.name}; exec "$@"'
        return subprocess.Popen(
            ["ip", "netns", "exec", self.space, "unshare", "--uts", "sh", "-c", inside, "sh",
             *map(str, argv)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )  # fmt: skip

    def drop(self, bytecode: str) -> None:
        """Of what it sends, by a program for the packet filter."""
        self._tc("qdisc", "add", "dev", self.interface, "clsact")
        self._tc("filter", "add", "dev", self.interface, "egress", "bpf", "da", "bytecode",
                 bytecode)  # fmt: skip

    def limit(self, mbit: int) -> None:
        self._tc("qdisc", "add", "dev", self.interface, "root", "tbf", "rate", f"{mbit}mbit",
                 "burst", "128kb", "latency", "300ms")  # fmt: skip

    def _tc(self, *argv: str) -> None:
        _run("tc", "-n", self.space, *argv)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """`hosta` and `hostb`, which know each other by name."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("two hosts need Linux, root and ip")
    mark = f"{os.getpid()}x{next(_NUMBERS)}"
    hosts = tuple(
        Host(
            name=f"host{letter}",
            space=f"ttf{mark}{letter}",
            address=f"10.77.0.{number}",
            interface=f"v{mark}{letter}"[:15],
        )
        for number, letter in enumerate("ab", 1)
    )
    a, b = hosts
    with contextlib.ExitStack() as stack:
        for host in hosts:
            try:
                _run("ip", "netns", "add", host.space)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no network namespace can be made here: {error.stderr}")
            stack.callback(_run, "ip", "netns", "del", host.space)
            (_ETC / host.space).mkdir(parents=True)
            stack.callback(shutil.rmtree, _ETC / host.space)
            names = "".join(f"{one.address} {one.name}\n" for one in hosts)
            (_ETC / host.space / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        _run("ip", "link", "add", a.interface, "netns", a.space, "type", "veth", "peer", "name",
             b.interface, "netns", b.space)  # fmt: skip
        for host in hosts:
            _run("ip", "-n", host.space, "addr", "add", f"{host.address}/24", "dev", host.interface)
            for name in ("lo", host.interface):
                _run("ip", "-n", host.space, "link", "set", name, "up")
        yield a, b


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)
