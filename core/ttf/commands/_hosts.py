"""Options of work that several hosts share in tickets: `ttf ab` and `ttf data encode`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ttf.commands import _options as options

if TYPE_CHECKING:
    from ttf.hookspecs import Executor
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
        "--executor", "executor", help="Who runs the blocks, as jobs; local: processes of this host."
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
    from ttf.hookspecs import ExecutorContext
    from ttf.host import plugins
    from ttf.host.options import checked

    factory = plugins.usable("executor", name)
    made = checked(factory.options_type, settings(sets), f"executor.{name}")
    return factory.create(made, ExecutorContext(jobs=jobs))
