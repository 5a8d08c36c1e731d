"""One line of a bench: our rate, a peer's, the ratio of the two, and how near the ceiling we are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Line:
    """One (name, peer). A peer that could not be measured has no value and says why in `note`."""

    name: str
    unit: str
    peer: str | None
    value: float | None = None
    spread: tuple[float, float] | None = None
    """The lowest and the highest of `repeats`."""
    peer_value: float | None = None
    ratio: float | None = None
    """How many times faster ours is: the median of pairs measured side by side."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    repeats: int = 0
    ceiling_ratio: float | None = None
    """Our share of what the machine can do; None where no ceiling was measured or none applies."""
    ceiling: str = ""
    """Which ceiling that is."""
    shape: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A bench, or a peer within one, that did not come to its end."""

    name: str
    peer: str | None
    what: str
    """In a word, e.g. "segfault (SIGSEGV)"."""
    evidence: tuple[str, ...] = ()
