"""Reads single figures out of a machine's ceilings, as JSON has them; None where there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ttf.rundir.documents import BestProduct, NotedCeilings

MEASURE: str = "ttf bench"
"""The command that measures the ceilings, for whoever misses them."""


def gemm_flops(ceilings: Mapping[str, Any], precision: str) -> float | None:
    """Floating-point operations a second of the best product at that precision."""
    return _scaled(ceilings, "best", precision, "gflops")


def gather_bytes(ceilings: Mapping[str, Any]) -> float | None:
    """Bytes a second from memory into a small buffer that is used again, as a gather has one."""
    return _scaled(ceilings, "copy", "into cache", "value")


def summary(ceilings: Mapping[str, Any]) -> NotedCeilings:
    """The few figures that a run notes."""
    best = {name: BestProduct(gflops=one["gflops"]) for name, one in ceilings["best"].items()}
    return {"date": ceilings["date"], "best": best}


def _scaled(ceilings: Mapping[str, Any], *path: str) -> float | None:
    value: Any = ceilings
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return 1e9 * float(value) if isinstance(value, int | float) and value > 0 else None


def words(ceilings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was measured, in rows for people."""
    about = ceilings["machine"]
    threads = ceilings["threads"]
    yield "machine", f"{about['processor']}, {threads} thread{'s' * (threads != 1)}"
    for precision, best in ceilings["best"].items():
        yield (
            f"products in {precision}",
            f"{best['gflops']:,.0f} GF/s ({best['way']}, {best['shape']})",
        )
    copies = ", ".join(
        f"{name} {figure['value']:.3g} {figure['unit']}"
        for name, figure in ceilings["copy"].items()
    )
    yield "memory copy", copies
    for kind, of in (("cold", "a disk"), ("hot", "the page cache")):
        reads = ", ".join(
            f"{name.removeprefix(kind).strip()} {figure['value']:.3g}"
            for name, figure in ceilings["read"].items()
            if name.startswith(kind)
        )
        if reads:
            yield f"reads from {of}", f"{reads} GB/s"
    yield "measured", f"{ceilings['date']} with torch {about['torch']}; anew: ttf bench --fresh"
