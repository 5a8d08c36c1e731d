"""`ttf bench cache`: how many rows of a trainable table are in memory when a step needs them?

A simulation: rows of 128 values with row-wise Adagrad, memory for a quarter of them, every row that
is used changes. The time of a read is this machine's (a cold read of 4 KiB), if it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.tools.bench.cache_policies import POLICIES
from ttf.tools.bench.results import Line

if TYPE_CHECKING:
    from ttf.process.serve import Tell

_ROWS: Final = {"reference": 40_000, "quick": 10_000, "tiny": 1000}
_EPOCHS: Final = 8
_IN_MEMORY: Final = 4  # One row in so many.
_ROW_BYTES: Final = 576
_READ: Final = "cold 4096"


@dataclass(frozen=True, kw_only=True)
class Simulated:
    hit_rate: float
    reads: int
    writes: int
    updates: int

    def bytes_per_update(self) -> float:
        return _ROW_BYTES * (self.reads + self.writes) / self.updates


def uniform(rows: int, length: int) -> NDArray[np.int64]:
    return np.random.default_rng(1).integers(rows, size=length)


def zipf(rows: int, length: int) -> NDArray[np.int64]:
    """Zipf(1.0): the n-th row is used 1 / n as often as the first."""
    draw = np.random.default_rng(2)
    share = 1 / np.arange(1, rows + 1)
    return draw.permutation(rows)[draw.choice(rows, length, p=share / share.sum())]


def shuffled(rows: int, length: int) -> NDArray[np.int64]:
    """Epochs: every row once, in a new order."""
    draw = np.random.default_rng(3)
    return np.concatenate([draw.permutation(rows) for _ in range(-(-length // rows))])[:length]


TRACES: Final[Mapping[str, Callable[[int, int], NDArray[np.int64]]]] = {
    "uniform": uniform,
    "Zipf(1.0)": zipf,
    "epochs, shuffled": shuffled,
}


def simulate(policy: str, trace: Sequence[int], size: int) -> Simulated:
    """The first eighth of the trace only fills the memory."""
    cache = POLICIES[policy](size, trace)
    warm = len(trace) // _EPOCHS
    hits = reads = writes = 0
    for at, row in enumerate(trace):
        hit, gone = cache.request(row)
        if at >= warm:
            hits += hit
            reads += not hit
            writes += gone is not None
    updates = len(trace) - warm
    return Simulated(hit_rate=hits / updates, reads=reads, writes=writes, updates=updates)


def work(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    rows = _ROWS[str(request["size"])]
    rate = request["ceilings"].get("read", {}).get(_READ, {}).get("median")
    total = len(TRACES) * len(POLICIES)
    lines = []
    for done, line in enumerate(_lines(rows, rate)):
        tell({"done": done, "total": total})
        lines.append(asdict(line))
    return {"lines": lines}


def _lines(rows: int, gb_per_s: float | None) -> Iterator[Line]:
    for name, make in TRACES.items():
        trace = make(rows, _EPOCHS * rows).tolist()
        for policy in POLICIES:
            found = simulate(policy, trace, rows // _IN_MEMORY)
            stall = "no time of a read was measured"
            if gb_per_s:
                seconds = found.reads / found.updates * 4096 / (gb_per_s * 1e9)
                stall = f"{1e6 * seconds:.1f} us of waiting"
            yield Line(
                name=f"{name}: {policy}",
                unit="% hits",
                peer=None,
                value=100 * found.hit_rate,
                shape=f"{stall} and {found.bytes_per_update():.0f} bytes moved per update",
            )
