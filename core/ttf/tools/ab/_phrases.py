"""The words of the verdict: how one comparison is said, and its figures as people write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ttf.tools.ab.analysis import Comparison

_FOUND: Final[Mapping[str, tuple[str, str]]] = {
    "samples_per_s": ("is {} faster", "is {} slower"),
    "peak_anon_mb": ("needs {} less memory", "needs {} more memory"),
    "memory_slope_mb_per_1k_steps": ("grows less by {}", "grows more by {}"),
    "loss": ("ends at a loss lower by {}", "ends at a loss higher by {}"),
    "recall@10": ("finds {} more", "finds {} less"),
    "mrr@10": ("ranks better by {}", "ranks worse by {}"),
    "recall@10 at equal time": ("finds {} more in equal time", "finds {} less in equal time"),
}
"""Where the subject is better, and where it is worse."""
_NOUN: Final[Mapping[str, str]] = {
    "crash_rate": "crash rate",
    "samples_per_s": "throughput",
    "peak_anon_mb": "memory",
    "memory_slope_mb_per_1k_steps": "memory growth",
    "loss": "loss",
    "recall@10": "recall",
    "mrr@10": "ranking",
    "recall@10 at equal time": "recall in equal time",
}
_QUALITY: Final[Mapping[str, str]] = {
    "crash_rate": "stability",
    "samples_per_s": "speed",
    "peak_anon_mb": "least memory",
    "memory_slope_mb_per_1k_steps": "least memory growth",
    "loss": "lowest loss",
}
_SHARES: Final = ("recall@", "mrr@")


def noun(c: Comparison) -> str:
    return _NOUN.get(c.metric, c.label)


def quality(c: Comparison) -> str:
    """What a ranking by it is a ranking of, best first."""
    return _QUALITY.get(c.metric, noun(c))


def clause(c: Comparison, subject: str) -> str:
    """What the subject is, against the other: "is 4% slower (2 to 6%)"."""
    effect, (low, high) = c.effect or 0.0, c.ci
    if subject == c.a:
        effect = _turned(c, effect)
        low, high = (None if x is None else _turned(c, x) for x in (high, low))
    better, worse = _FOUND.get(
        c.metric, (f"has a better {noun(c)} by {{}}", f"has a worse {noun(c)} by {{}}")
    )
    wins = (c.a if c.verdict == "a" else c.b) == subject
    text = (better if wins else worse).format(amount(c, abs(effect)))
    if low is None or high is None:
        return text
    near, far = sorted((abs(low), abs(high)))
    return f"{text} ({_figure(near * _factor(c))} to {amount(c, far)})"


def amount(c: Comparison, size: float) -> str:
    """With its unit."""
    unit = "%" if c.scale == "ratio" else " points" if _factor(c) == 100 else f" {c.unit}".rstrip()
    return _figure(size * _factor(c)) + unit


def chance(c: Comparison) -> str:
    p = 1.0 if c.p_adjusted is None else c.p_adjusted
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def joined(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _turned(c: Comparison, effect: float) -> float:
    """Of a relative to b, instead of b to a."""
    return 1 / (1 + effect) - 1 if c.scale == "ratio" else -effect


def _factor(c: Comparison) -> int:
    return 100 if c.scale != "difference" or c.metric.startswith(_SHARES) else 1


def _figure(value: float) -> str:
    """Two digits that matter."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"
