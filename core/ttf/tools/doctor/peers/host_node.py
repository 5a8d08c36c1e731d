"""Node 0's part of a meeting: it listens, waits for the others, asks each in turn, and tells all.

```
 others                               node 0
   |-- hello: facts, port ----------->|   until all are there
   |<-- welcome: number --------------|
   |<-- clock ... reading ----------->|   9 round trips, one node after the other
   |<-- nodes, token -----------------|
   |<-- connect ... links ----------->|   each to all others
   |<-- transfer ... link ----------->|   each to the next, alone
   |<-- found ------------------------|
```
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ttf.process.line import Line, LineLost
from ttf.tools.doctor.peers import clock
from ttf.tools.doctor.peers.clock import Skew
from ttf.tools.doctor.peers.facts import Facts
from ttf.tools.doctor.peers.found import Found, Meeting, NotMet, link_of
from ttf.tools.doctor.peers.links import CONNECT_S, Answering
from ttf.tools.doctor.peers.others import PROTOCOL, connect_all, transfer_to

ANSWER_S: Final = 20.0
TRANSFER_S: Final = 120.0
# For a stranger that connects and says nothing.
_HELLO_S: Final = 20.0
_MOST_STRANGERS: Final = 256
_LOOK_EVERY_S: Final = 0.25

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class _Guest:
    line: Line
    facts: Facts
    port: int


def host(
    listening: socket.socket,
    own: Facts,
    answering: Answering,
    *,
    nodes: int,
    rendezvous: str,
    wait_s: float,
    say: Say,
) -> Meeting:
    """The whole meeting, for node 0."""
    with contextlib.ExitStack() as stack:
        guests, strangers = _wait_for(listening, nodes - 1, wait_s, say, stack)
        if len(guests) < nodes - 1:
            return _not_all(own, guests, strangers, nodes, rendezvous, wait_s)
        try:
            for number, guest in enumerate(guests, 1):
                guest.line.name = f"{guest.facts.host} (node {number})"
                guest.line.send({"welcome": number})
            return _compared(guests, own, answering, rendezvous, say)
        except LineLost as error:
            return NotMet(
                text=f"A node left the comparison: {error}.",
                remedy="Start ttf doctor --peers again on every node.",
            )


# --- who comes ----------------------------------------------------------------------------------------


def _wait_for(
    listening: socket.socket,
    others: int,
    wait_s: float,
    say: Say,
    stack: contextlib.ExitStack,
) -> tuple[list[_Guest], list[str]]:
    """Those that said hello in time, and what strangers said; all lines are closed with `stack`."""
    deadline = time.monotonic() + wait_s
    guests: list[_Guest] = []
    strangers: list[str] = []
    with selectors.DefaultSelector() as selector:
        listening.setblocking(False)
        selector.register(listening, selectors.EVENT_READ)
        arrived: dict[Line, tuple[str, float]] = {}
        said = -1
        while len(guests) < others and time.monotonic() < deadline:
            if said != len(guests):
                said = len(guests)
                say(f"peers: waits for {others - said} of {others} other nodes")
            for key, _ in selector.select(_LOOK_EVERY_S):
                if key.fileobj is listening:
                    for line, address in _accepted(listening):
                        if len(arrived) >= _MOST_STRANGERS:
                            line.close()
                            continue
                        stack.callback(line.close)
                        arrived[line] = (address, time.monotonic() + _HELLO_S)
                        selector.register(line.connection, selectors.EVENT_READ, line)
                    continue
                line = key.data
                try:
                    line.take()
                    message = line.next_message()
                    if message is None:
                        continue
                    guests.append(_guest(line, message))
                except (LineLost, TypeError, LookupError, ValueError) as error:
                    strangers.append(f"{arrived[line][0]}: {str(error)[:200]}")
                    line.refuse(str(error))
                selector.unregister(line.connection)
                del arrived[line]
            for line, (address, until) in list(arrived.items()):
                if time.monotonic() > until:
                    strangers.append(f"{address}: said nothing")
                    selector.unregister(line.connection)
                    del arrived[line]
                    line.close()
    # By name, not by arrival: the same numbers each time.
    guests.sort(key=lambda guest: (guest.facts.host, guest.facts.address, guest.port))
    return guests, strangers[:20]


def _accepted(listening: socket.socket) -> Iterator[tuple[Line, str]]:
    while True:
        try:
            connection, address = listening.accept()
        except OSError:
            return
        yield Line(connection), str(address[0])


def _guest(line: Line, message: dict[str, Any]) -> _Guest:
    """Raises ValueError, TypeError or LookupError."""
    if message.get("peers") != PROTOCOL:
        raise ValueError(f"it is no ttf doctor --peers of this version: {str(message)[:80]}")
    port = message.get("port")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError("its port is no number")
    return _Guest(line=line, facts=Facts.from_json(message.get("facts")), port=port)


def _not_all(
    own: Facts,
    guests: list[_Guest],
    strangers: list[str],
    nodes: int,
    rendezvous: str,
    wait_s: float,
) -> NotMet:
    here = ", ".join([f"{own.host} (node 0)", *(guest.facts.host for guest in guests)])
    missing = nodes - 1 - len(guests)
    found = NotMet(
        text=f"{missing} of {nodes} nodes did not come to {rendezvous} within {wait_s:.0f} s; here "
        f"are: {here}.",
        remedy=f"Start ttf doctor --peers --nodes {nodes} --rendezvous {rendezvous} on every node at "
        f"the same time. If it runs there: open the port for {own.address} in the firewall.",
        evidence=(
            *(f"a stranger came: {text}" for text in strangers),
            *(f"interface of this node: {line}" for line in own.interfaces),
        ),
    )
    for guest in guests:
        with contextlib.suppress(LineLost):
            guest.line.send({"refused": found.text, "remedy": found.remedy})
    return found


# --- what is asked ------------------------------------------------------------------------------------


def _compared(
    guests: list[_Guest], own: Facts, answering: Answering, rendezvous: str, say: Say
) -> Found:
    """Raises LineLost."""
    say("peers: compares the clocks")
    clocks = [Skew(offset_s=0.0, error_s=0.0)]
    clocks += [clock.measured(partial(_clock_of, guest.line)) for guest in guests]
    nodes = [
        {"address": facts.address, "port": port}
        for facts, port in [(own, answering.port), *((g.facts, g.port) for g in guests)]
    ]
    answering.token, answering.node = secrets.token_hex(16), 0
    for guest in guests:
        guest.line.send({"meet": nodes, "token": answering.token})
    for guest in guests:
        guest.line.receive(ANSWER_S)  # it answers with that token from now on
    say("peers: opens a connection from each node to each other one")
    for guest in guests:
        guest.line.send({"connect": True})
    told = [connect_all(nodes, 0, own.address, answering.token)]
    within = ANSWER_S + CONNECT_S * len(nodes) * 2
    told += [guest.line.receive(within) for guest in guests]
    links = {
        (a, b): link_of(a, b, told[a].get(str(b)))
        for a in range(len(nodes))
        for b in range(len(nodes))
        if a != b
    }
    say("peers: measures the bandwidth from each node to the next")
    for a in range(len(nodes)):
        b = (a + 1) % len(nodes)
        if b == a or links[a, b].error:
            continue
        if a == 0:
            found = transfer_to(nodes, b, own.address, answering.token)
        else:
            guests[a - 1].line.send({"transfer": b})
            found = guests[a - 1].line.receive(TRANSFER_S)
        links[a, b] = link_of(a, b, found)
    result = Found(
        rendezvous=rendezvous,
        nodes=(own, *(guest.facts for guest in guests)),
        clocks=tuple(clocks),
        links=tuple(links[pair] for pair in sorted(links)),
    )
    for guest in guests:
        guest.line.send({"found": result.to_json()})
    return result


def _clock_of(line: Line) -> float:
    line.send({"clock": True})
    answer = line.receive(ANSWER_S).get("clock")
    if not isinstance(answer, int | float):
        raise LineLost("it did not tell the time")
    return float(answer)
