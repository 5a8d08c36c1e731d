"""Where the nodes of a study meet, and which of them this one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ttf.errors import ConfigError
from ttf.supervise.nodes.addresses import is_here, joined, parsed

MOST_NODES: Final = 1024
PATIENCE_S: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """What --nodes, --rendezvous, --node and --patience say."""

    nodes: int
    host: str
    port: int
    node: int | None = None
    patience_s: float = PATIENCE_S

    @property
    def address(self) -> str:
        return joined(self.host, self.port)

    @property
    def is_node_0(self) -> bool:
        """Raises ConfigError."""
        return is_here(self.host, self.port) if self.node is None else self.node == 0


def place_of(
    nodes: int, rendezvous: str, node: int | None, patience_s: float | None
) -> Place | None:
    """None: one host. Raises ConfigError."""
    if nodes == 1:
        given = {"--rendezvous": rendezvous, "--node": node, "--patience": patience_s}
        found = [name for name, value in given.items() if value not in ("", None)]
        if found:
            raise ConfigError(
                f"{', '.join(found)}: only for several hosts.",
                hint="Add --nodes N, or leave it out.",
            )
        return None
    if nodes > MOST_NODES:
        raise ConfigError(f"--nodes {nodes}: at most {MOST_NODES} nodes work together.")
    if not rendezvous:
        raise ConfigError(
            f"--nodes {nodes} needs --rendezvous HOST:PORT.",
            hint="Give the same on all nodes: a name or an address of node 0 that the others can "
            "reach, and a free port of it. For example: --rendezvous 10.0.0.1:29400",
        )
    if node is not None and not 0 <= node < nodes:
        raise ConfigError(f"--node {node}: the nodes are 0 to {nodes - 1}.")
    host, port = parsed(rendezvous)
    patience_s = PATIENCE_S if patience_s is None else patience_s
    return Place(nodes=nodes, host=host, port=port, node=node, patience_s=patience_s)
