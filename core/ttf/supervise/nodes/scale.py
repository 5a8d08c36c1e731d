"""On how many hosts and processes a run is: what a person asked for, and the section [scale].

Read here without the rest of the configuration, which only a trainer resolves: what is wrong in it
is refused there, with its place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ttf.config import files
from ttf.errors import ConfigError
from ttf.rundir.request import TrainRequest
from ttf.supervise.nodes.addresses import parsed
from ttf.text.numbers import parse_duration

MOST_NODES: Final = 1024
MOST_RANKS: Final = 1024  # Of one node.
_SECTION: Final = "scale"
_TIMES: Final = ("join_s", "patience_s", "exchange_timeout_s")


@dataclass(frozen=True, kw_only=True)
class Scale:
    nodes: int = 1
    ranks: int = 1  # Of this node.
    rendezvous: str = ""  # HOST:PORT, where node 0 listens.
    node: int | None = None  # Which one this is; None: by the address of the rendezvous.
    # The section [scale], see `config/scale_schema.py`.
    join_s: float = 600.0
    patience_s: float = 3600.0
    exchange_timeout_s: float = 60.0
    interface: str = ""

    @property
    def single(self) -> bool:
        return self.nodes == 1 and self.ranks == 1

    def check(self) -> None:
        """Raises ConfigError."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(f"--nodes {self.nodes}: a run has 1 to {MOST_NODES} nodes.")
        if not 1 <= self.ranks <= MOST_RANKS:
            raise ConfigError(f"--ranks {self.ranks}: a node has 1 to {MOST_RANKS} ranks.")
        if self.nodes > 1 and not self.rendezvous:
            raise ConfigError(
                f"--nodes {self.nodes} needs --rendezvous HOST:PORT.",
                hint="Give the same on all nodes: a name or an address of node 0 that the others "
                "can reach, and a free port of it. For example: --rendezvous 10.0.0.1:29400",
            )
        if self.nodes == 1 and (self.rendezvous or self.node):
            given = "--rendezvous" if self.rendezvous else "--node"
            raise ConfigError(
                f"{given} is for runs on several nodes.",
                hint="Add --nodes N, or leave it out: the processes of one machine find each other.",
            )
        if self.node is not None and not 0 <= self.node < self.nodes:
            raise ConfigError(
                f"--node {self.node}: the nodes of this run are 0 to {self.nodes - 1}."
            )
        if self.rendezvous:
            parsed(self.rendezvous)


def with_settings(scale: Scale, request: TrainRequest) -> Scale:
    """With what the section [scale] says. Raises ConfigError if a file cannot be read."""
    found = dict(_settings(request))
    known: dict[str, Any] = {}
    for name in _TIMES:
        if name in found:
            seconds = _seconds(found[name])
            known |= {name: seconds} if seconds is not None else {}
    if isinstance(found.get("interface"), str):
        known["interface"] = found["interface"]
    return replace(scale, **known)


def _settings(request: TrainRequest) -> Iterator[tuple[str, Any]]:
    """Keys of the section, later ones win."""
    config = request.config
    if request.resume:
        run_toml = Path(request.run_dir) / "run.toml"
        config = str(run_toml) if run_toml.is_file() else None
    values: Mapping[str, Any] = {}
    if isinstance(config, str):
        values = files.read(Path(config)).values
    elif config is not None:
        values = config
    section = values.get(_SECTION)
    if isinstance(section, Mapping):
        yield from section.items()
    for text in request.sets:
        key, _, value = text.partition("=")
        if key.strip().startswith(f"{_SECTION}."):
            yield key.strip().removeprefix(f"{_SECTION}."), _toml(value.strip())
    for key, value in request.flags.items():
        if key.startswith(f"{_SECTION}."):
            yield key.removeprefix(f"{_SECTION}."), value


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text  # as --set takes it


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if value > 0 else None
    try:
        return parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        return None
