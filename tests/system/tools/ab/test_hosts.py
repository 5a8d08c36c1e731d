"""`ttf ab` on several hosts: real processes on the loopback, and two hosts as namespaces."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.hosts import Host, missing, two_hosts
from tests.kit.widely import wide

WAIT_S = 240.0
TOML = """
[data]
pairs = "pairs.npz"
bank = "bank.npz"
[tower.query]
name = "linear"
[tower.doc]
name = "identity"
[miner]
name = "exact"
isolation = "none"
[train]
steps = {steps}
batch_size = {batch}
[device]
threads = 1
"""


class Node:
    """A `ttf ab` in a folder of its own."""

    def __init__(
        self, folder: Path, words: Sequence[str], host: Host | None = None, **more: str
    ) -> None:
        self.folder = folder
        prefix = [] if host is None else host.prefix
        with (folder / "err").open("ab") as err:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "ttf", "ab", *words, "--json"],
                cwd=folder,
                env={**os.environ, "TTF_HOME": str(folder / "home"), "NO_COLOR": "1", **more},
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

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def start(name: str, *words: str, host: Host | None = None, **more: str) -> Node:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        nodes.append(Node(folder, words, host, **more))
        return nodes[-1]

    yield start
    for node in nodes:
        if node.process.poll() is None:
            node.process.terminate()
        node.process.wait()
        if node.process.stdout is not None:
            node.process.stdout.close()


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def until(found: Callable[[], object], what: str) -> None:
    ends_at = time.monotonic() + WAIT_S
    while not found():
        assert time.monotonic() < ends_at, what
        time.sleep(0.02)


def journal(folder: Path) -> list[dict[str, Any]]:
    files = list(folder.glob("runs/ab-*/samples.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def hosts_of_blocks(samples: Sequence[Mapping[str, Any]]) -> dict[int, set[str]]:
    blocks: dict[int, set[str]] = {}
    for sample in samples:
        if sample["outcome"] != "void":
            blocks.setdefault(sample["block"], set()).add(sample["host"])
    return blocks


SCRIPT = """
import os, pathlib, sys, time
flag, node = pathlib.Path(os.environ["FLAG"]), os.environ["NODE"]
while node == "0" and not flag.exists():
    time.sleep(0.01)
if node == "1":
    flag.touch()
print("loss:", int(os.environ["TTF_STUDY_SEED"]) + int(sys.argv[1]))
"""


def test_two_nodes_share_the_blocks_of_a_study(begin: Callable[..., Node], tmp_path: Path) -> None:
    """Node 0 waits in its first repeat until the other node has begun one."""
    words = ["--repeats", "2", "--metric", r"loss: ([0-9]+)", "--nodes", "2"]
    words += ["--rendezvous", free_address(), "--out", "study"]
    for arm in (1, 2):
        words += ["--command", f"{sys.executable} work.py {arm}"]
    nodes = []
    for number in ("0", "1"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "work.py").write_text(SCRIPT)
        flags = {"FLAG": str(tmp_path / "flag"), "NODE": number}
        nodes.append(begin(number, *words, "--node", number, **flags))
    first, second = nodes
    code, document = first.ended()
    assert code == 0, first.err
    other, told = second.ended()
    assert other == 0, second.err
    assert (told["ended"], told["repeats_here"]) == ("all", 2)
    samples = document["samples"]
    assert len(samples) == 4 and {s["outcome"] for s in samples} == {"clean"}
    assert all(len(hosts) == 1 for hosts in hosts_of_blocks(samples).values())
    assert len({s["host"] for s in samples}) == 2
    assert all(s["metrics"]["metric"] == s["seed"] + int(s["arm"].split()[-1]) for s in samples)
    folders = {Path(s["folder"]).parents[1].name for s in samples}
    assert "study" in folders and len(folders) == 2, "run folders stay where they were made"


KILLER = """
import os, pathlib, signal
flag, pid = pathlib.Path("flag"), os.getpid()
while not flag.exists():  # the job that we are in, once
    if b"ttf.tools.ab.hosts.job" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        flag.touch()
        os.kill(pid, signal.SIGKILL)
    stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    pid = int(stat[stat.rindex(b")") + 2:].split()[1])
"""


@wide
def test_the_block_of_a_job_that_is_killed_is_done_again(
    begin: Callable[..., Node], tmp_path: Path
) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "work.py").write_text(KILLER)
    words = ["--repeats", "2", "--executor", "local", "--out", "study"]
    node = begin("0", *words, "--command", f"{sys.executable} work.py", "--command", "true")
    code, document = node.ended()
    assert code == 0, node.err
    assert "ended with exit code 137; the block is done again" in node.err
    samples = document["samples"]
    assert sorted((s["block"], s["outcome"]) for s in samples) == [
        (b, "clean") for b in (1, 1, 2, 2)
    ]
    (again,) = {s["attempt"] for s in samples} - {1}
    assert again == 2
    assert all(len(hosts) == 1 for hosts in hosts_of_blocks(samples).values())


# --- configurations, on two hosts as namespaces -----------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    words = ["--pairs", "400", "--val", "50", "--seq-len", "3", "--dim", "16", "--bank", "200"]
    subprocess.run(
        [sys.executable, "-m", "ttf", "data", "synth", "--out", str(folder), *words, "--seed", "1"],
        check=True,
        capture_output=True,
    )
    return folder


def prepared(folder: Path, data: Path, steps: int) -> None:
    folder.mkdir()
    for file in data.iterdir():
        if file.suffix == ".npz":
            (folder / file.name).write_bytes(file.read_bytes())
    for name, batch in (("a", 32), ("b", 16)):
        (folder / f"{name}.toml").write_text(TOML.format(steps=steps, batch=batch))


QUALITY = ("arm", "block", "seed", "outcome", "steps", "metrics", "loss", "weights_sha256")


def quality(samples: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """What the hosts must not change."""
    counted = [s for s in samples if s["outcome"] != "void"]
    return sorted([s[name] for name in QUALITY] for s in counted)


@wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("killed", ["the other host", "node 0", "the cable", "nobody"])
def test_a_study_on_two_hosts_equals_that_of_one(
    begin: Callable[..., Node], tmp_path: Path, data: Path, killed: str
) -> None:
    if why := missing():
        pytest.skip(why)
    words = ["a.toml", "b.toml", "--repeats", "4"]
    for name in ("alone", "0", "1"):
        prepared(tmp_path / name, data, 60)
    code, alone = begin("alone", *words).ended()
    assert code == 0
    with two_hosts() as hosts:
        several = [*words, "--nodes", "2", "--rendezvous", f"{hosts.a.address}:29555"]
        several += ["--patience", "60s"]
        first = begin("0", *several, host=hosts.a)
        second = begin("1", *several, host=hosts.b)
        if killed != "nobody":
            until(
                lambda: "host-b" in {s["host"] for s in journal(first.folder)},
                "the other host has done a repeat of its block",
            )
        if killed == "the other host":
            hosts.b.power_cut()
            assert second.process.wait() == -signal.SIGKILL
            second = begin("1", *several, host=hosts.b)
        if killed == "node 0":
            hosts.a.power_cut()
            first.ended()
            more = ["--nodes", "2", "--rendezvous", f"{hosts.a.address}:29555"]
            first = begin("0", "--resume", "runs/ab-001", *more, host=hosts.a)
        if killed == "the cable":
            hosts.cut()
            until(lambda: "host-b is lost" in first.err, "node 0 notices")
            until(lambda: "node 0 is lost" in second.err, "the other host notices")
            hosts.heal()
        code, document = first.ended()
        assert code == 0, first.err
        code, told = second.ended()
        assert code == 0 and told["ended"] == "all", second.err
    samples = document["samples"]
    assert quality(samples) == quality(alone["samples"])
    assert all(len(found) == 1 for found in hosts_of_blocks(samples).values()), "blocks are whole"
    assert {s["host"] for s in samples} == {"host-a", "host-b"}
    if killed == "the other host":
        void = [s for s in samples if s["outcome"] == "void"]
        assert all("done again on one host" in s["reason"] for s in void)
    if killed == "node 0":
        assert "The connection to node 0 is lost" in second.err


@wide
@pytest.mark.timeout(600)
def test_a_host_with_other_data_is_refused_by_name(
    begin: Callable[..., Node], tmp_path: Path, data: Path
) -> None:
    if why := missing():
        pytest.skip(why)
    for name in ("0", "1"):
        prepared(tmp_path / name, data, 6)
    bank = tmp_path / "1" / "bank.npz"
    bank.write_bytes(bank.read_bytes()[:-1] + b"x")
    with two_hosts() as hosts:
        words = ["a.toml", "b.toml", "--repeats", "1", "--nodes", "2"]
        words += ["--rendezvous", f"{hosts.a.address}:29555"]
        first = begin("0", *words, host=hosts.a)
        second = begin("1", *words, host=hosts.b)
        code, told = second.ended()
        assert code == 3
        assert "host-b has other data than node 0" in told["error"]["message"]
        assert "data.bank of a" in told["error"]["message"]
        assert first.ended()[0] == 0
