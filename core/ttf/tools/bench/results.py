"""One line of a bench: our rate, a peer's, their ratio, and our share of the ceiling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Line:
    """One (name, peer). A peer that could not be measured has no value; `note` says why."""

    name: str
    unit: str
    peer: str | None
    value: float | None = None
    spread: tuple[float, float] | None = None  # lowest and highest of `repeats`
    peer_value: float | None = None
    ratio: float | None = None  # how many times faster ours is: median of paired measurements
    ratio_low: float | None = None
    ratio_high: float | None = None
    repeats: int = 0
    # Our share of the machine's ceiling; None if not measured or not applicable.
    ceiling_ratio: float | None = None
    ceiling: str = ""  # the name of the ceiling
    shape: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A bench, or a peer within one, that failed."""

    name: str
    peer: str | None
    what: str  # short, e.g. "segfault (SIGSEGV)"
    evidence: tuple[str, ...] = ()
