"""What a meeting found out, the same on every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from ttf.rundir.typed_json import dataclass_from
from ttf.tools.doctor.peers.clock import Skew
from ttf.tools.doctor.peers.facts import Facts


@dataclass(frozen=True, kw_only=True)
class Link:
    """A connection that node `a` opened to node `b`; `error` if it could not."""

    a: int
    b: int
    error: str = ""
    rtt_s: float | None = None
    bytes_per_s: float | None = None  # None: not measured between these two


@dataclass(frozen=True, kw_only=True)
class Found:
    """`nodes` is complete, in the order of their numbers; node 0 is the one that listened."""

    rendezvous: str
    nodes: tuple[Facts, ...]
    clocks: tuple[Skew, ...]  # Relative to node 0.
    links: tuple[Link, ...]

    def name(self, node: int) -> str:
        return f"{self.nodes[node].host} (node {node})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        """Raises TypeError, LookupError or ValueError."""
        return dataclass_from(cls, values)

    @property
    def on_one_machine(self) -> bool:
        machines = {node.machine for node in self.nodes}
        return len(machines) == 1 and "" not in machines


@dataclass(frozen=True, kw_only=True)
class NotMet:
    """Why the nodes could not compare themselves, and what to do."""

    text: str
    remedy: str
    evidence: tuple[str, ...] = ()


Meeting = Found | NotMet


def link_of(a: int, b: int, told: object) -> Link:
    """From what another node said, whatever that is."""
    found: Mapping[str, Any] = told if isinstance(told, Mapping) else {"error": "it did not say"}

    def number(name: str) -> float | None:
        value = found.get(name)
        return float(value) if isinstance(value, int | float) else None

    return Link(
        a=a,
        b=b,
        error=str(found.get("error") or ""),
        rtt_s=number("rtt_s"),
        bytes_per_s=number("bytes_per_s"),
    )
