"""Addresses of hosts: which of them is this one, and what is free there."""

from __future__ import annotations

import errno
import socket
from typing import Final

from ttf.errors import ConfigError

_MOST_PORT: Final = 65535
_EVERYWHERE: Final = ("0.0.0.0", "::", "*")


def parsed(rendezvous: str) -> tuple[str, int]:
    """HOST and PORT. Raises ConfigError.

    >>> parsed("10.0.0.1:29400"), parsed("[fe80::1]:29400")
    (('10.0.0.1', 29400), ('fe80::1', 29400))
    """
    host, _, port = rendezvous.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) <= _MOST_PORT:
        raise ConfigError(
            f"--rendezvous {rendezvous}: this is not HOST:PORT.",
            hint="For example: --rendezvous 10.0.0.1:29400",
        )
    if host in _EVERYWHERE:
        raise ConfigError(
            f"--rendezvous {rendezvous}: {host} stands for every address of a machine.",
            hint="Give the one address of node 0 that the other nodes can reach; ttf listens there "
            "only.",
        )
    return host, int(port)


def resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The address of a host's name. Raises ConfigError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(
            f"The host {host!r} of --rendezvous has no address here: {error.strerror or error}.",
            hint="Check the name, or give the address of node 0 in numbers.",
        ) from error
    return family, (str(address[0]), port)


def is_here(host: str, port: int) -> bool:
    """Whether this machine has the address. Raises ConfigError."""
    family, (address, _) = resolved(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return False
            raise ConfigError(f"Could not look at the address {address}: {error}.") from error
    return True


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address only. Raises ConfigError."""
    family, address = resolved(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    listener.setblocking(False)
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"Port {port} of {host} is in use: perhaps by node 0 of this run or of another one.",
            hint=f"End the other program (ss -ltnp | grep {port}), or use another port on all nodes. "
            "Several nodes on one machine need --node 1, --node 2, ...",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(
            f"{host} is no address of this machine, so node 0 cannot listen there.",
            hint="Give an address of this machine on all nodes, or start this one as another node.",
        )
    return ConfigError(f"ttf cannot listen on {host}:{port}: {error.strerror or error}.")


def free_port(host: str) -> int:
    """A port of this machine that nobody uses now. Raises ConfigError."""
    family, (address, _) = resolved(host, 0)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
    return port


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
