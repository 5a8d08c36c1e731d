"""`ttf data encode` on several hosts: the files are those of one, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FakeDistribution
from tests.kit.hosts import Host, missing, two_hosts
from tests.kit.widely import wide
from tests.system.tools.ab.test_hosts import free_address

WAIT_S = 240.0
FILES = ("bank.npz", "pairs.npz")
ENCODER = """
import hashlib, os, pathlib, time
import numpy as np
from ttf import Availability, NoOptions, hookimpl

class Encoder:
    dim, about = 8, {"model": "slow"}
    def fingerprint(self):
        return os.environ.get("SLOW_MODEL", "0" * 16)
    def encode(self, texts, role):
        begun = os.environ.get("SLOW_BEGUN")
        if begun:
            pathlib.Path(begun).touch()
        waits = os.environ.get("SLOW_WAITS")
        while waits and not pathlib.Path(waits).exists():
            time.sleep(0.01)
        time.sleep(float(os.environ.get("SLOW_S", "0")))
        return np.array([list(hashlib.blake2b(t.encode(), digest_size=8).digest()) for t in texts], np.float32)
    def too_long(self, texts, role):
        return np.array([len(t) > 20 for t in texts])

class Factory:
    name, options_type = "slow", NoOptions
    def availability(self):
        return Availability(ok=True)
    def create(self, options, context):
        return Encoder()

@hookimpl
def ttf_encoder(name):
    return Factory()
"""


class Node:
    def __init__(
        self, folder: Path, site: Path, words: list[str], host: Host | None = None, **more: str
    ) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ttf", "data", "encode", "../faq.csv", "--encoder", "slow"]
        with (folder / "err").open("ab") as err:
            self.process = subprocess.Popen(
                [
                    *([] if host is None else host.prefix),
                    *command,
                    "--out",
                    "data",
                    *words,
                    "--json",
                ],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(site), "NO_COLOR": "1", **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def ended(self) -> tuple[int, dict[str, Any]]:
        out, _ = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, json.loads(out) if out.strip() else {}

    def files(self) -> dict[str, bytes]:
        return {name: (self.folder / "data" / name).read_bytes() for name in FILES}


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    site = FakeDistribution(folder=tmp_path / "site")
    site.add("ttf-slow", {"encoder.slow": "ttf_slow"})
    site.module("ttf_slow", ENCODER)
    rows = "".join(f"the question number {n}?,the answer {n % 5000}\n" for n in range(9000))
    (tmp_path / "faq.csv").write_text(f"question,answer\n{rows}")
    nodes: list[Node] = []

    def start(name: str, *words: str, host: Host | None = None, **more: str) -> Node:
        nodes.append(Node(tmp_path / name, tmp_path / "site", list(words), host, **more))
        return nodes[-1]

    yield start
    for node in nodes:
        if node.process.poll() is None:
            node.process.terminate()
        node.process.wait()
        if node.process.stdout is not None:
            node.process.stdout.close()


def until(path: Path) -> None:
    ends_at = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < ends_at, path.name
        time.sleep(0.01)


@wide
def test_two_nodes_make_the_files_of_one(begin: Callable[..., Node], tmp_path: Path) -> None:
    """Node 0 encodes nothing before the other node has begun, and a third one has another model."""
    alone = begin("alone")
    words = ["--nodes", "3", "--rendezvous", free_address()]
    begun = str(tmp_path / "begun")
    first = begin("0", *words, "--node", "0", SLOW_WAITS=begun)
    stranger = begin("2", *words, "--node", "2", SLOW_MODEL="1" * 16)
    code, told = stranger.ended()
    assert code == 3 and "the model: 1111" in told["error"]["message"]
    second = begin("1", *words, "--node", "1", SLOW_BEGUN=begun)
    assert alone.ended()[0] == 0
    code, made = first.ended()
    assert code == 0, first.err
    code, told = second.ended()
    assert code == 0, second.err
    assert told["ended"] == "all" and told["encoded_here"] > 0
    assert first.files() == alone.files()
    assert made["counts"]["queries_cut_by_the_encoder"] == 9000
    assert not (first.folder / "data" / ".encode").exists()
    assert [path.name for path in second.folder.iterdir()] == ["err"], "it leaves nothing"


@wide
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", ["the other host", "node 0"])
def test_a_killed_host_loses_only_its_blocks(
    begin: Callable[..., Node], tmp_path: Path, killed: str
) -> None:
    if why := missing():
        pytest.skip(why)
    alone = begin("alone")
    assert alone.ended()[0] == 0
    with two_hosts() as hosts:
        words = ["--nodes", "2", "--rendezvous", f"{hosts.a.address}:29557", "--patience", "120s"]
        begun = tmp_path / "begun"
        first = begin("0", *words, host=hosts.a, SLOW_S="0.5")
        second = begin("1", *words, host=hosts.b, SLOW_S="0.5", SLOW_BEGUN=str(begun))
        until(begun)
        if killed == "node 0":
            hosts.a.power_cut()
            assert first.process.wait() == -signal.SIGKILL
            first = begin("0", *words, host=hosts.a)
        else:
            hosts.b.power_cut()
            assert second.process.wait() == -signal.SIGKILL
        code, _ = first.ended()
        assert code == 0, first.err
        assert first.files() == alone.files()
        if killed == "node 0":
            assert second.ended()[0] == 0, second.err
        else:
            assert "is lost" in first.err and "given out again" in first.err
