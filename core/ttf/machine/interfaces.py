"""Network interfaces of this host: the one that reaches another host, and their addresses."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

import psutil


def interface_towards(host: str, port: int) -> str:
    """The interface that reaches a host; '' if no interface has the address. Raises OSError.

    gloo takes a name, and without one what the host's own name resolves to, often the loopback.
    """
    own = address_towards(host, port)
    return next((name for name, address in addresses() if address == own), "")


def address_towards(host: str, port: int) -> str:
    """Our address as that host sees it. Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # of a datagram: nothing is sent
        return _plain(str(probe.getsockname()[0]))


def address_of(interface: str) -> str:
    """Of IPv4 if it has one, as gloo takes it; '' if there is no such interface, or no address."""
    found = [address for name, address in addresses() if name == interface]
    return min(found, key=lambda address: ":" in address, default="")


def addresses() -> Iterator[tuple[str, str]]:
    """(interface, address) of IPv4 and IPv6, without link-local ones."""
    for name, found in sorted(psutil.net_if_addrs().items()):
        for one in found:
            address = _plain(one.address)
            if one.family in (socket.AF_INET, socket.AF_INET6) and not _of_link(address):
                yield name, address


def is_loopback(address: str) -> bool:
    """
    >>> [is_loopback(a) for a in ("127.0.1.1", "::1", "10.0.0.1", "what")]
    [True, True, False, False]
    """
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _of_link(address: str) -> bool:
    return ":" in address and ipaddress.ip_address(address).is_link_local


def _plain(address: str) -> str:
    return address.partition("%")[0]
