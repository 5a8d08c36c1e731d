"""Meets the other nodes: as node 0 where the address of the rendezvous is, else as one of the others."""

from __future__ import annotations

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import Final

from ttf.errors import ConfigError
from ttf.supervise.nodes.addresses import joined, parsed
from ttf.text.numbers import DATE, moment
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.peers.facts import gather
from ttf.tools.doctor.peers.found import Found, Meeting, NotMet
from ttf.tools.doctor.peers.host_node import host as host_meeting
from ttf.tools.doctor.peers.links import Answering
from ttf.tools.doctor.peers.others import join

# Each opens a connection to each other one, as gloo does.
MOST_NODES: Final = 64
_WAIT_S: Final = 600.0  # without a configuration: the default of scale.join_s
_NOT_OURS: Final = (errno.EADDRNOTAVAIL, errno.EADDRINUSE)


@dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Where the nodes meet, as on the command line."""

    nodes: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return joined(self.host, self.port)

    @classmethod
    def of(cls, nodes: int, rendezvous: str) -> Rendezvous:
        """Raises ConfigError."""
        host, port = parsed(rendezvous)
        if not 2 <= nodes <= MOST_NODES:
            raise ConfigError(
                f"--peers compares 2 to {MOST_NODES} nodes, not {nodes}.",
                hint="--nodes is the number of hosts of the run, this one included.",
            )
        return cls(nodes=nodes, host=host, port=port)


def meet(exam: Examination, place: Rendezvous) -> Meeting:
    """Blocks until all nodes are there and compared, or the time for that is over."""
    wait_s = float(exam.settings.get("scale.join_s", _WAIT_S))
    with contextlib.ExitStack() as stack:
        try:
            listening = _listen(place)
            if listening is not None:
                stack.enter_context(contextlib.closing(listening))
            exam.say("peers: looks at this node")
            own = gather(exam, place.host, place.port)
            answering = stack.enter_context(contextlib.closing(Answering(own.address)))
        except OSError as error:
            reason = error.strerror or str(error)
            return NotMet(
                text=f"{socket.gethostname()} cannot meet the others at {place.address}: {reason}.",
                remedy="Give the address of node 0 as numbers, or put its name into /etc/hosts of "
                "every node.",
            )
        if listening is None:
            return join((place.host, place.port), own, answering, wait_s=wait_s, say=exam.say)
        return host_meeting(
            listening,
            own,
            answering,
            nodes=place.nodes,
            rendezvous=place.address,
            wait_s=wait_s,
            say=exam.say,
        )


def _listen(place: Rendezvous) -> socket.socket | None:
    """None if the address is another host's, or another process of this host listens there. Raises
    OSError."""
    family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[
        0
    ]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(256)
    except OSError as error:
        listening.close()
        if error.errno in _NOT_OURS:
            return None
        raise
    return listening


def keep_network(found: Found) -> None:
    """For the plan of a run, where the nodes are on different hosts. Raises StorageError."""
    import time

    from ttf.machine.network import MeasuredNetwork, save_network

    rates = [link.bytes_per_s for link in found.links if link.bytes_per_s]
    trips = [link.rtt_s for link in found.links if link.rtt_s is not None]
    if found.on_one_machine or not rates or not trips:
        return
    save_network(
        MeasuredNetwork(
            date=moment(time.time(), DATE),
            nodes=len(found.nodes),
            gbit=min(rates) * 8 / 1e9,
            latency_ms=max(trips) / 2 * 1e3,
        )
    )
