"""The nodes of a run compare themselves: what is refused, and what is only said."""

from __future__ import annotations

import doctest
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest

from ttf.errors import ConfigError
from ttf.hookspecs import Verdict
from ttf.machine import interfaces
from ttf.process import messages
from ttf.process.line import Line, LineLost
from ttf.tools.doctor.peers import clock, compare
from ttf.tools.doctor.peers.clock import Sample, Skew
from ttf.tools.doctor.peers.facts import Facts, FileFacts
from ttf.tools.doctor.peers.found import Found, Link, Meeting, NotMet, link_of
from ttf.tools.doctor.peers.host_node import host
from ttf.tools.doctor.peers.links import Answering, look_at
from ttf.tools.doctor.peers.meet import Rendezvous
from ttf.tools.doctor.peers.others import join

BANK = FileFacts(bytes=1_000_000, fingerprint="0f1e2d")
A = Facts(
    host="red",
    machine="boot-1/net-1",
    interface="eth0",
    address="10.0.0.1",
    interfaces=("eth0 10.0.0.1", "lo 127.0.0.1"),
    ttf="0.1.0",
    python="3.11.9",
    torch="2.13.0+cpu",
    libraries={"numpy": "2.4.0", "faiss-cpu": "1.14.2"},
    architecture="x86_64",
    capability="AVX512",
    bits={"torch": "aa", "numpy": "bb"},
    threads=8,
    settings={"train.lr": "1234", "miner.name": "5678"},
    data={"data.bank": BANK},
)
B = replace(
    A,
    host="blue",
    machine="boot-2/net-1",
    address="10.0.0.2",
    interfaces=("eth0 10.0.0.2", "eth1 192.168.7.2", "lo 127.0.0.1"),
)


def found(
    a: Facts = A, b: Facts = B, *, offset_s: float = 0.001, links: tuple[Link, ...] | None = None
) -> Found:
    both = (
        Link(a=0, b=1, rtt_s=2e-4, bytes_per_s=1.2e9),
        Link(a=1, b=0, rtt_s=3e-4, bytes_per_s=1.1e9),
    )
    clocks = (Skew(offset_s=0.0, error_s=0.0), Skew(offset_s=offset_s, error_s=1e-4))
    return Found(
        rendezvous="red:29400",
        nodes=(a, b),
        clocks=clocks,
        links=both if links is None else links,
    )


JUDGES = (
    compare.judge_versions,
    compare.judge_numbers,
    compare.judge_data,
    compare.judge_clocks,
    compare.judge_interfaces,
    compare.judge_links,
)


def test_the_examples_are_true() -> None:
    for module in (clock, interfaces):
        assert doctest.testmod(module).failed == 0


def test_equal_nodes_pass_every_check() -> None:
    verdicts = [judge(found()) for judge in JUDGES]
    assert {verdict.status for verdict in verdicts} == {"ok"}
    assert "8.8 Gb/s" in verdicts[-1].detail and "0.3 ms" in verdicts[-1].detail


def _refused(verdict: Verdict, *words: str, status: str = "fail") -> None:
    """With the name of a host and a remedy."""
    assert verdict.status == status
    assert "blue" in verdict.detail and verdict.remedy
    for word in words:
        assert word in verdict.detail + verdict.remedy


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(B, ttf="0.2.0"), ("ttf", "0.2.0 on blue (node 1)")),
        (replace(B, torch="2.12.1"), ("torch", "2.12.1 on blue (node 1)")),
    ],
    ids=["ttf", "torch"],
)
def test_other_versions_of_ttf_or_torch_are_refused(other: Facts, words: tuple[str, ...]) -> None:
    _refused(compare.judge_versions(found(b=other)), *words)


@pytest.mark.parametrize(
    "other",
    [
        replace(B, libraries={"numpy": "2.3.0", "faiss-cpu": "1.14.2"}),
        replace(B, libraries={"numpy": "2.4.0"}),
        replace(B, python="3.12.1"),
    ],
    ids=["numpy", "no faiss", "python"],
)
def test_other_libraries_are_said(other: Facts) -> None:
    _refused(compare.judge_versions(found(b=other)), "rounding", status="warn")


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (replace(B, capability="AVX2", bits={"torch": "xx", "numpy": "bb"}), "AVX2 on blue"),
        (replace(B, threads=2), "--threads 2"),
        (replace(B, variables={"MKL_CBWR": "AVX2"}), "MKL_CBWR=AVX2 on blue"),
        (replace(B, bits={"torch": "aa", "numpy": "xx"}), "different bits"),
    ],
    ids=["instruction set", "threads", "variables", "bits alone"],
)
def test_nodes_that_round_differently_are_said(other: Facts, word: str) -> None:
    verdict = compare.judge_numbers(found(b=other))
    assert verdict.status == "warn" and "equal only to rounding" in verdict.detail
    assert word in verdict.detail + verdict.remedy
    assert any("blue" in line for line in verdict.evidence)


def test_another_architecture_and_a_broken_torch_are_refused() -> None:
    _refused(compare.judge_numbers(found(b=replace(B, architecture="aarch64"))), "aarch64")
    _refused(
        compare.judge_numbers(found(b=replace(B, problem="segfault (SIGSEGV)"))),
        "SIGSEGV",
        "ttf doctor",
    )


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(B, settings={"train.lr": "9999", "miner.name": "5678"}), ("train.lr", "RUN.toml")),
        (replace(B, settings=None), ("no RUN.toml",)),
        (
            replace(B, data={"data.bank": replace(BANK, fingerprint="ffff")}),
            ("data.bank", "ffff on blue"),
        ),
        (
            replace(B, data={"data.bank": FileFacts(problem="No such file or directory")}),
            ("No such file", "Copy the file to blue"),
        ),
        (replace(B, data={}), ("data.bank", "not named")),
    ],
    ids=["settings", "no file", "other content", "missing data", "no data"],
)
def test_other_settings_and_other_files_are_refused(other: Facts, words: tuple[str, ...]) -> None:
    _refused(compare.judge_data(found(b=other)), *words)


@pytest.mark.parametrize(
    ("offset_s", "status", "word"),
    [(0.4, "ok", ""), (-3.0, "warn", "behind"), (20.0, "fail", "20.0 s ahead")],
)
def test_clocks_that_differ_by_seconds_are_said_and_by_more_refused(
    offset_s: float, status: str, word: str
) -> None:
    verdict = compare.judge_clocks(found(offset_s=offset_s))
    assert verdict.status == status
    if status != "ok":
        _refused(verdict, word, "blue", status=status)


def test_the_shortest_round_trip_tells_the_time() -> None:
    """A clock 20 s ahead, over a network whose answers come late now and then."""
    samples = [
        Sample(began=100.0 + n, took_s=took, other=120.0 + n + took * share)
        for n, (took, share) in enumerate([(0.9, 0.95), (0.04, 0.5), (0.3, 0.05)])
    ]
    assert clock.skew(samples) == Skew(offset_s=20.0, error_s=0.02)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(B, interface="lo", address="127.0.1.1"), ("lo (127.0.1.1)", "eth0, eth1")),
        (replace(B, interface="eth9", address=""), ("'eth9'", "scale.interface")),
        (replace(B, address="10.0.0.1"), ("same address", "scale.interface")),
    ],
    ids=["loopback", "no such interface", "one address for both"],
)
def test_a_wrong_interface_is_refused(other: Facts, words: tuple[str, ...]) -> None:
    _refused(compare.judge_interfaces(found(b=other)), *words)


def test_the_loopback_is_right_where_all_nodes_are_one_machine() -> None:
    here = replace(A, interface="lo", address="127.0.0.1")
    assert compare.judge_interfaces(found(here, replace(here, host="blue"))).status == "ok"


def test_a_connection_that_works_one_way_only_is_refused() -> None:
    links = (
        Link(a=0, b=1, error="timed out"),
        Link(a=1, b=0, rtt_s=2e-4, bytes_per_s=1e9),
    )
    verdict = compare.judge_links(found(links=links))
    _refused(verdict, "red (node 0) to blue (node 1)", "timed out", "firewall of blue")
    assert verdict.detail.startswith("1 of 2 connections")


def test_what_was_found_passes_through_json_unchanged() -> None:
    before = found()
    assert Found.from_json(json.loads(json.dumps(before.to_json()))) == before


@pytest.mark.parametrize(
    ("nodes", "rendezvous"),
    [(2, "red"), (2, "red:port"), (2, ":29400"), (2, "red:99999"), (1, "red:1"), (65, "red:1")],
)
def test_a_wrong_rendezvous_is_refused(nodes: int, rendezvous: str) -> None:
    with pytest.raises(ConfigError):
        Rendezvous.of(nodes, rendezvous)


# --- real sockets, each node a thread of this process ------------------------------------------------


class Node:
    """One of the others, in a thread."""

    def __init__(self, facts: Facts, address: tuple[str, int], stack: ExitStack) -> None:
        self.answering = stack.enter_context(closing(Answering("127.0.0.1")))
        self.met: Meeting | None = None

        def take_part() -> None:
            self.met = join(address, facts, self.answering, wait_s=20, say=lambda _: None)

        self.thread = threading.Thread(target=take_part, daemon=True)
        self.thread.start()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def _here(name: str) -> Facts:
    return replace(A, host=name, machine="here", interface="lo", address="127.0.0.1")


def _hold(
    stack: ExitStack, names: str, wait_s: float = 20.0, strangers: tuple[bytes, ...] = ()
) -> tuple[Meeting, list[Node]]:
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    address = ("127.0.0.1", listening.getsockname()[1])
    for said in strangers:
        stranger = stack.enter_context(socket.create_connection(address))
        stranger.sendall(said)
    others = [Node(_here(name), address, stack) for name in names.split()[1:]]
    own = stack.enter_context(closing(Answering("127.0.0.1")))
    met = host(
        listening,
        _here(names.split()[0]),
        own,
        nodes=len(others) + 1 + (wait_s < 1),
        rendezvous=f"{address[0]}:{address[1]}",
        wait_s=wait_s,
        say=lambda _: None,
    )
    for node in others:
        node.thread.join(20)
    return met, others


def test_three_nodes_meet_and_all_find_the_same(stack: ExitStack) -> None:
    met, others = _hold(stack, "red green blue")
    assert isinstance(met, Found)
    assert [node.met for node in others] == [met, met]
    assert [node.host for node in met.nodes] == ["red", "blue", "green"]
    assert {(link.a, link.b) for link in met.links} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    assert not any(link.error for link in met.links)
    ring = {(link.a, link.b) for link in met.links if link.bytes_per_s}
    assert ring == {(0, 1), (1, 2), (2, 0)}
    assert compare.judge_clocks(met).status == "ok"  # one clock


def test_strangers_disturb_no_meeting(stack: ExitStack) -> None:
    garbage = (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, messages.encode({"peers": 99}), b"")
    met, others = _hold(stack, "red blue", strangers=garbage)
    assert isinstance(met, Found) and others[0].met == met


def test_a_node_that_does_not_come_is_told_to_those_that_are_there(stack: ExitStack) -> None:
    met, others = _hold(stack, "red blue", wait_s=0.8)
    assert isinstance(met, NotMet)
    assert "1 of 3 nodes did not come" in met.text and "red" in met.text and "blue" in met.text
    told = others[0].met
    assert isinstance(told, NotMet) and told.text == met.text and "firewall" in told.remedy


def test_a_closed_port_is_told_with_the_address(stack: ExitStack) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens, and nobody else gets it
        address = unused.getsockname()
        answering = stack.enter_context(closing(Answering("127.0.0.1")))
        met = join(address, _here("blue"), answering, wait_s=0.1, say=lambda _: None)
    assert isinstance(met, NotMet)
    assert f"{address[0]}:{address[1]}" in met.text and "refused" in met.text
    assert "firewall" in met.remedy


def test_a_port_of_another_program_is_no_node(stack: ExitStack) -> None:
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def answer() -> None:
        connection, _ = listening.accept()
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n" * 4)
        connection.close()

    threading.Thread(target=answer, daemon=True).start()
    answering = stack.enter_context(closing(Answering("127.0.0.1")))
    met = join(listening.getsockname(), _here("blue"), answering, wait_s=5, say=lambda _: None)
    assert isinstance(met, NotMet) and "left the comparison" in met.text


def test_who_does_not_know_the_token_is_not_answered(stack: ExitStack) -> None:
    answering = stack.enter_context(closing(Answering("127.0.0.1")))
    answering.token, answering.node = "secret", 1
    address = ("127.0.0.1", answering.port)
    assert "error" in look_at(address, "", "guess", 1, transfer=False)
    assert "error" in look_at(address, "", "", 1, transfer=False)
    assert look_at(address, "", "secret", 1, transfer=False)["rtt_s"] > 0
    assert "error" in look_at(address, "", "secret", 2, transfer=False)


def test_a_message_has_a_largest_size(stack: ExitStack) -> None:
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    theirs = stack.enter_context(socket.create_connection(listening.getsockname()))
    line = Line(stack.enter_context(listening.accept()[0]), most_bytes=1 << 16)
    theirs.setblocking(False)
    theirs.send(messages.encode({"facts": "x" * (1 << 18)}))
    with pytest.raises(LineLost, match="more than 65,536 bytes"):
        line.receive(5)


def test_facts_of_another_shape_are_refused() -> None:
    values: dict[str, Any] = A.to_json()
    assert Facts.from_json(json.loads(json.dumps(values))) == A
    wrong: Any
    for wrong in ({**values, "threads": "8"}, {**values, "more": 1}, {"host": "red"}, None, []):
        with pytest.raises((TypeError, LookupError, ValueError)):
            Facts.from_json(wrong)


@pytest.mark.parametrize("told", [None, [], "no", 1, {}, {"rtt_s": "soon", "error": None}])
def test_a_link_is_made_of_whatever_a_node_says_of_it(told: object) -> None:
    link = link_of(1, 2, told)
    assert (link.a, link.b, link.rtt_s, link.bytes_per_s) == (1, 2, None, None)
