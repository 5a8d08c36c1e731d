"""`ttf doctor --peers` on two hosts, with real processes and a real network between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke
from tests.kit.fixtures.doctor import WriteToml
from tests.kit.hosts import Host, Hosts, missing, two_hosts
from tests.kit.widely import wide

from ttf.tools.doctor.peers.checks import Peers
from ttf.tools.doctor.peers.meet import Rendezvous

PORT = 29400
# For the packet filter: drops TCP packets that open a connection; answers pass.
NO_NEW_CONNECTIONS = (
    "9,40 0 0 12,21 0 5 2048,48 0 0 23,21 0 3 6,48 0 0 47,84 0 0 18,21 1 0 2,6 0 0 0,6 0 0 2"
)
Documents = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if why := missing():
        pytest.skip(why)
    with two_hosts() as made:
        yield made


def _tc(host: Host, *words: str) -> None:
    subprocess.run(["tc", "-n", host.space, *words], check=True, capture_output=True)


def _opens_none(host: Host) -> None:
    _tc(host, "filter", "add", "dev", host.device, "egress", "bpf", "da", "bytecode",
        NO_NEW_CONNECTIONS)  # fmt: skip


def _examined(
    hosts: Hosts,
    files: tuple[Path, Path],
    home: Path,
    environment: dict[str, str] | None = None,
    codes: tuple[int, int] = (0, 0),
) -> Documents:
    """The documents of both hosts; `environment` is added to that of the second."""
    processes = []
    for host, file, more in zip((hosts.a, hosts.b), files, ({}, environment or {}), strict=True):
        own = home / host.name
        own.mkdir()
        argv = [*host.prefix, sys.executable, "-m", "ttf", "doctor", str(file), "--peers",
                "--nodes", "2", "--rendezvous", f"host-a:{PORT}", "--json"]  # fmt: skip
        processes.append(
            subprocess.Popen(
                argv,
                env=os.environ | {"TTF_HOME": str(own)} | more,
                cwd=own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ended = [process.communicate(timeout=120) for process in processes]
    for process, code, (out, err) in zip(processes, codes, ended, strict=True):
        assert process.returncode == code, out + err
    a, b = (json.loads(out) for out, _ in ended)
    return a, b


def _checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["id"]: check for check in document["checks"]}


@wide
def test_two_alike_hosts_pass_and_their_network_is_kept_for_the_plan(
    hosts: Hosts, run_toml: WriteToml, tmp_path: Path
) -> None:
    file = run_toml(scale="join_s = 60")
    documents = _examined(hosts, (file, file), tmp_path)
    for document in documents:
        checks = _checks(document)
        assert list(checks) == ["peers-meeting", "peers-versions", "peers-numbers", "peers-data",
                                "peers-clock", "peers-interface", "peers-links"]  # fmt: skip
        assert {check["status"] for check in checks.values()} == {"ok"}
        assert [node["host"] for node in document["nodes"]] == ["host-a", "host-b"]
        assert [node["address"] for node in document["nodes"]] == ["10.77.0.1", "10.77.0.2"]
        assert "data.bank and data.pairs" in checks["peers-data"]["detail"]
        assert "2 connections work" in checks["peers-links"]["detail"]
    for host in (hosts.a, hosts.b):
        (kept,) = (tmp_path / host.name).rglob("network.json")
        assert json.loads(kept.read_text())["gbit"] > 0.1


@wide
@pytest.mark.parametrize(
    ("section", "check", "words"),
    [
        ('interface = "lo"', "peers-interface", "host-b (node 1) would use lo"),
        ('interface = "eth7"', "peers-interface", "no network interface 'eth7'"),
    ],
    ids=["loopback", "no such interface"],
)
def test_a_wrong_interface_is_refused_by_both(
    hosts: Hosts,
    run_toml: WriteToml,
    tmp_path: Path,
    section: str,
    check: str,
    words: str,
) -> None:
    right = run_toml(scale="join_s = 60").rename(tmp_path / "right.toml")
    wrong = run_toml(scale=f"join_s = 60\n{section}")
    for document in _examined(hosts, (right, wrong), tmp_path, codes=(6, 6)):
        found = _checks(document)[check]
        assert found["status"] == "fail" and words in found["detail"]
        assert "scale.interface" in found["remedy"]


@wide
def test_a_host_that_cannot_open_connections_is_named(
    hosts: Hosts, run_toml: WriteToml, tmp_path: Path
) -> None:
    file = run_toml(scale="join_s = 60")
    _opens_none(hosts.a)  # the other one still reaches it
    for document in _examined(hosts, (file, file), tmp_path, codes=(6, 6)):
        found = _checks(document)["peers-links"]
        assert found["status"] == "fail"
        assert "1 of 2 connections" in found["detail"]
        assert "host-a (node 0) to host-b (node 1)" in found["detail"]
        assert "firewall of host-b" in found["remedy"]


@wide
def test_a_closed_rendezvous_is_refused_on_both(
    hosts: Hosts, run_toml: WriteToml, tmp_path: Path
) -> None:
    file = run_toml(scale="join_s = 5")
    _opens_none(hosts.b)
    a, b = _examined(hosts, (file, file), tmp_path, codes=(6, 6))
    assert "1 of 2 nodes did not come" in _checks(a)["peers-meeting"]["detail"]
    assert "host-b could not reach node 0" in _checks(b)["peers-meeting"]["detail"]
    assert _checks(b)["peers-links"]["status"] == "skip"


@wide
def test_other_data_and_another_instruction_set_are_found(
    hosts: Hosts, run_toml: WriteToml, small_data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "data"
    shutil.copytree(small_data, other)
    with (other / "bank.npz").open("r+b") as file:
        file.seek(200)
        file.write(b"another")
    files = (
        run_toml(scale="join_s = 60").rename(tmp_path / "right.toml"),
        run_toml(scale="join_s = 60", folder=other),
    )
    environment = {"ATEN_CPU_CAPABILITY": "default"}
    for document in _examined(hosts, files, tmp_path, environment, codes=(6, 6)):
        checks = _checks(document)
        assert checks["peers-data"]["status"] == "fail"
        assert "data.bank is not the same" in checks["peers-data"]["detail"]
        assert checks["peers-numbers"]["status"] == "warn"
        assert "equal only to rounding" in checks["peers-numbers"]["detail"]


@wide
def test_a_slow_link_is_measured(hosts: Hosts, run_toml: WriteToml, tmp_path: Path) -> None:
    file = run_toml(scale="join_s = 60")
    for host in (hosts.a, hosts.b):
        _tc(host, "qdisc", "add", "dev", host.device, "root", "tbf", "rate", "100mbit", "burst",
            "128kb", "latency", "300ms")  # fmt: skip
    _examined(hosts, (file, file), tmp_path)
    (kept,) = (tmp_path / "host-a").rglob("network.json")
    assert json.loads(kept.read_text())["gbit"] == pytest.approx(0.1, rel=0.25)


@wide
def test_three_nodes_of_one_machine_pass(run_toml: WriteToml, tmp_path: Path) -> None:
    file = run_toml(scale="join_s = 60")
    argv = [sys.executable, "-m", "ttf", "doctor", str(file), "--peers", "--nodes", "3",
            "--rendezvous", f"127.0.0.1:{PORT + 1}", "--json"]  # fmt: skip
    environment = os.environ | {"TTF_HOME": str(tmp_path / "home")}
    processes = [
        subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    documents = [json.loads(process.communicate(timeout=180)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert all(document["nodes"] == documents[0]["nodes"] for document in documents)
    assert "6 connections work" in _checks(documents[0])["peers-links"]["detail"]
    assert not list((tmp_path / "home").rglob("network.json"))  # that was no network


def test_every_check_of_several_nodes_has_its_section_in_the_document() -> None:
    page = Path(__file__).parents[4].joinpath("docs/doctor.md").read_text()
    headings = {line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")}
    checks = Peers(Rendezvous.of(2, "host:1")).checks([])
    assert {check.id for check in checks} <= headings


def test_what_peers_needs_is_said(invoke: Invoke) -> None:
    for argv in (["--peers"], ["--peers", "--nodes", "2"], ["--nodes", "2"]):
        done = invoke(["doctor", *argv])
        assert done.code == 2
        assert "--rendezvous" in done.err
    listed = invoke(["doctor", "--peers", "--nodes", "2", "--rendezvous", "a:1", "--list-checks"])
    assert "peers-clock" in listed.out
    wrong = ["doctor", "--peers", "--nodes", "2", "--rendezvous", "a:1", "--check", "peers-clok"]
    assert "Did you mean 'peers-clock'?" in invoke(wrong).err
