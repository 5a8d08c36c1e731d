"""The part of every node but node 0 in a meeting: it says hello and does what node 0 asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ttf.process.line import MOST_TOLD, Line, LineLost, connected
from ttf.tools.doctor.peers.facts import Facts
from ttf.tools.doctor.peers.found import Found, Meeting, NotMet
from ttf.tools.doctor.peers.links import Answering, look_at

PROTOCOL: Final = 1
_TRY_AGAIN_S: Final = 0.5
_CONNECT_S: Final = 5.0
# Between two questions of node 0, which waits for the slowest node.
_PATIENCE_S: Final = 600.0


def hello(facts: Facts, port: int) -> dict[str, Any]:
    return {"peers": PROTOCOL, "facts": facts.to_json(), "port": port}


def join(
    address: tuple[str, int],
    own: Facts,
    answering: Answering,
    *,
    wait_s: float,
    say: Callable[[str], None],
) -> Meeting:
    """The whole meeting, for the others."""
    shown = f"{address[0]}:{address[1]}"
    say(f"peers: looks for node 0 at {shown}")
    deadline = time.monotonic() + wait_s
    while True:
        try:
            line = connected(address, _CONNECT_S, most_bytes=MOST_TOLD)
            break
        except OSError as error:
            reason = error.strerror or str(error)
        if time.monotonic() > deadline:
            return NotMet(
                text=f"{own.host} could not reach node 0 at {shown} within {wait_s:.0f} s: {reason}.",
                remedy=f"Start the same command on the host that has the address {address[0]}, at the "
                f"same time. If it runs there: open port {address[1]} in its firewall for "
                f"{own.address or 'this host'}.",
                evidence=tuple(f"interface of this node: {name}" for name in own.interfaces),
            )
        time.sleep(_TRY_AGAIN_S)
    try:
        line.send(hello(own, answering.port))
        return _obey(line, own, answering, max(_PATIENCE_S, wait_s))
    except LineLost as error:
        return NotMet(
            text=f"What answers at {shown} left the comparison with {own.host}: {error}.",
            remedy="Use the same version of ttf and the same command on every node, and a port that "
            "no other program uses.",
        )
    finally:
        line.close()


def _obey(line: Line, own: Facts, answering: Answering, patience_s: float) -> Meeting:
    """Raises LineLost."""
    nodes: list[dict[str, Any]] = []
    while True:
        asked = line.receive(patience_s)
        if "welcome" in asked:
            answering.node = int(asked["welcome"])
        elif "clock" in asked:
            line.send({"clock": time.time()})
        elif "meet" in asked:
            nodes, answering.token = list(asked["meet"]), str(asked["token"])
            line.send({"met": True})
        elif "connect" in asked:
            line.send(connect_all(nodes, answering.node, own.address, answering.token))
        elif "transfer" in asked:
            line.send(transfer_to(nodes, int(asked["transfer"]), own.address, answering.token))
        elif "refused" in asked:
            return NotMet(text=str(asked["refused"]), remedy=str(asked.get("remedy", "")))
        elif "found" in asked:
            try:
                return Found.from_json(asked["found"])
            except (TypeError, LookupError, ValueError) as error:
                raise LineLost(f"its result could not be read: {error}") from error
        else:
            raise LineLost(f"it asked what this version does not know: {sorted(asked)[:5]}")


def connect_all(
    nodes: Sequence[Mapping[str, Any]], own: int, source: str, token: str
) -> dict[str, Any]:
    """By number of the other node, as text."""
    return {
        str(number): look_at(_address(node), source, token, number, transfer=False)
        for number, node in enumerate(nodes)
        if number != own
    }


def transfer_to(
    nodes: Sequence[Mapping[str, Any]], number: int, source: str, token: str
) -> dict[str, Any]:
    if not 0 <= number < len(nodes):
        return {"error": "there is no such node"}
    return look_at(_address(nodes[number]), source, token, number, transfer=True)


def _address(node: Mapping[str, Any]) -> tuple[str, int]:
    return str(node["address"]), int(node["port"])
