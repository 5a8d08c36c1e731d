"""Options of work that several hosts share in tickets: `ttf ab` and `ttf data encode`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ttf.commands import _options as options

if TYPE_CHECKING:
    from ttf.jobs import Executor
    from ttf.tools.tickets.desk import Desk
    from ttf.tools.tickets.place import Place

F = TypeVar("F", bound=Callable[..., Any])

_HOSTS = (
    options.count(
        "--nodes",
        default=1,
        help="Hosts that do this together; start the same command on each of them.",
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


@contextlib.contextmanager
def desk_at(place: Place | None, say: Callable[[str], None]) -> Iterator[Desk | None]:
    """Listens at the address of the rendezvous; whoever came is told how the block ended. Raises
    ConfigError."""
    if place is None:
        yield None
        return
    from ttf.supervise.nodes.addresses import listening
    from ttf.tools.tickets.desk import Desk

    desk = Desk(listening(place.host, place.port), place.nodes - 1, say)
    over = {"over": "stopped", "text": "Node 0 stopped."}
    try:
        yield desk
        over = {"over": "all", "text": ""}
    except Exception as error:
        over = {"over": "error", "text": f"Node 0 ended: {error}"}
        raise
    finally:
        desk.close(over)


def told_at_the_end(told: Mapping[str, Any], *, as_json: bool) -> None:
    """Of another node. Raises PeerLost if node 0 did not come to its end."""
    from ttf.errors import PeerLost
    from ttf.text.terminal import emit_json, say

    if told["ended"] in ("stopped", "error"):
        error = PeerLost(
            str(told["text"]), hint="Start it again on node 0, and then this command again here."
        )
        error.details = dict(told)
        raise error
    if as_json:
        emit_json({name: value for name, value in told.items() if name != "text"})
    else:
        say("It is over; the results are on node 0.")


def executor(command: F) -> F:
    """Adds the options; see `chosen_executor`."""
    sets = click.option(
        "--executor-set",
        "executor_sets",
        multiple=True,
        metavar="OPTION=VALUE",
        help="An option of the executor; see ttf plugins show executor.NAME.",
    )
    named = options.plugin(
        "--executor",
        "executor",
        help="Who runs the blocks, as jobs; local: processes of this host.",
    )
    return named(sets(command))


def chosen_executor(chosen: dict[str, Any], *, jobs: int, alone: bool) -> Executor | None:
    """Takes the options out of a command's. Raises ConfigError."""
    from ttf.errors import ConfigError

    name, sets = chosen.pop("executor"), chosen.pop("executor_sets")
    if name is None:
        if sets:
            raise ConfigError("--executor-set needs --executor NAME.")
        return None
    if not alone:
        raise ConfigError(
            "--executor and --nodes are two ways to use several hosts.", hint="Choose one of them."
        )
    from ttf.commands.export import settings
    from ttf.host import plugins
    from ttf.host.options import checked
    from ttf.jobs import ExecutorContext

    factory = plugins.usable("executor", name)
    made = checked(factory.options_type, settings(sets), f"executor.{name}")
    return factory.create(made, ExecutorContext(jobs=jobs))
