"""Options of work that several hosts share in tickets: `ttf ab` and `ttf data encode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ttf.commands import _options as options

if TYPE_CHECKING:
    from ttf.tools.tickets.place import Place

F = TypeVar("F", bound=Callable[..., Any])

_HOSTS = (
    options.count(
        "--nodes",
        default=1,
        help="Hosts that do this together; start the same command on each of them. [default: 1]",
    ),
    click.option(
        "--rendezvous",
        default="",
        metavar="HOST:PORT",
        help="Where node 0 listens for the others: an address of it that they can reach, and a free "
        "port. The host that has this address is node 0.",
    ),
    options.count(
        "--node",
        type=options.NATURAL,
        help="Which node this is, from 0. [default: by the address of --rendezvous]",
    ),
    click.option(
        "--patience",
        "patience_s",
        type=options.duration(),
        help="How long another node tries to reach node 0, e.g. 1h. [default: 10m]",
    ),
)


def hosts(command: F) -> F:
    """Adds the options; see `place`."""
    for option in reversed(_HOSTS):
        command = option(command)
    return command


def place(chosen: dict[str, Any]) -> Place | None:
    """Takes them out of a command's options. None: one host. Raises ConfigError."""
    from ttf.tools.tickets.place import place_of

    names = ("nodes", "rendezvous", "node", "patience_s")
    return place_of(*(chosen.pop(name) for name in names))
