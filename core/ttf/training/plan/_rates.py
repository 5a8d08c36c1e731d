"""How fast this machine and its network are, for a plan of several nodes: as measured, or assumed.

The other nodes are taken to be like this one; `ttf doctor --peers` says whether they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ttf.machine import measured, processor
from ttf.machine.measured import Ceilings, PrecisionName
from ttf.machine.network import (
    ASSUMED_GBIT,
    ASSUMED_LATENCY_MS,
    MEASURE,
    MeasuredNetwork,
    kept_network,
)
from ttf.training.plan._model import Plan
from ttf.training.plan.scale import Link

if TYPE_CHECKING:
    from ttf.config.scale_schema import ScaleConfig

# Of the machine's fastest product: towers and scans reach 0.57 to 0.82 (docs/performance.md).
_OF_CEILING: Final = 0.65
# gloo on the loopback interface: 15 to 19 Gb/s (https://github.com/meta-pytorch/torchft/issues/199).
LOCAL: Final = Link(
    bytes_per_s=2e9, latency_s=2e-5, source="assumed: 16 Gb/s between processes of one node"
)
_DISK: Final = 1e9
_COPY: Final = 5e9


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Of one process, in operations and bytes per second, with the origin of the figures."""

    training: float
    mining: float
    mining_bytes: int  # of a value of a document in the scan's first pass
    disk: float
    copy: float
    source: str
    disk_source: str

    def times(self, processes: int) -> Rates:
        """Of so many processes of one machine, which share its threads but not its disk."""
        return replace(self, training=self.training * processes, mining=self.mining * processes)


def rates(plan: Plan, ceilings: Ceilings | None) -> Rates:
    threads = plan.choices.threads
    half = bool(processor.processor().bf16_unit)
    if ceilings is not None and ceilings.stale:
        ceilings = None
    if ceilings is None:
        training = mining = plan.gflops_per_thread * 1e9 * threads
        source = (
            f"assumed: {plan.gflops_per_thread:.0f} GFLOP/s per thread; {measured.MEASURE} measures"
        )
    else:
        training = _share_of(ceilings, "bf16" if plan.choices.precision == "bf16" else "fp32")
        mining = _share_of(ceilings, "bf16" if half else "fp32")
        training, mining = (rate * threads / ceilings.threads for rate in (training, mining))
        source = f"{_OF_CEILING:.0%} of the products that {measured.MEASURE} measured here"
    disk = _figure(ceilings, "read", "cold sequential")
    return Rates(
        training=training,
        mining=mining,
        mining_bytes=2 if half else 4,
        disk=disk or _DISK,
        copy=_figure(ceilings, "copy", "1 thread") or _COPY,
        source=source,
        disk_source=f"measured by {measured.MEASURE}" if disk else "assumed",
    )


def _share_of(ceilings: Ceilings, precision: PrecisionName) -> float:
    return _OF_CEILING * 1e9 * ceilings.best(precision)[2].value


def _figure(ceilings: Ceilings | None, table: str, name: str) -> float:
    if ceilings is None:
        return 0.0
    found = (ceilings.read if table == "read" else ceilings.copy).get(name)
    return 0.0 if found is None else 1e9 * found.value


def network(config: ScaleConfig, kept: MeasuredNetwork | None) -> Link:
    """What is configured, else what was measured, else an assumption; `source` says which."""
    gbit, gbit_from = _chosen(
        config.network_gbit, None if kept is None else kept.gbit, ASSUMED_GBIT, "scale.network_gbit"
    )
    latency, latency_from = _chosen(
        config.network_latency_ms,
        None if kept is None else kept.latency_ms,
        ASSUMED_LATENCY_MS,
        "scale.network_latency_ms",
    )
    origin = gbit_from if gbit_from == latency_from else f"{gbit_from}; {latency_from}"
    return Link(
        bytes_per_s=gbit * 1e9 / 8,
        latency_s=latency / 1e3,
        source=f"{gbit:g} Gb/s, {latency:g} ms ({origin})",
    )


def _chosen(
    configured: float | str, kept: float | None, assumed: float, name: str
) -> tuple[float, str]:
    if not isinstance(configured, str):
        return float(configured), name
    if kept is not None:
        return kept, f"measured by {MEASURE}"
    return assumed, f"assumed; {MEASURE} measures"


def kept_link(config: ScaleConfig) -> Link:
    return network(config, kept_network())
