"""Kaplan and Meier's curve: steps until the first crash, for repeats of any length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def kaplan_meier(
    ends: Sequence[tuple[float, bool]], confidence: float = 0.95
) -> tuple[tuple[float, float, float, float], ...]:
    """(step, share without a crash from this step on, lower, upper) at 0 and at each crash.

    `ends` are (steps, crashed): a clean repeat says only that it lasted so long. Bounds are
    Greenwood's on the scale log(-log), which stay within 0 and 1. When no repeat is left there is
    no variance: then they are 0 and the last upper bound.

    >>> [(s, round(x, 3)) for s, x, _, _ in kaplan_meier([(10, True), (20, False), (30, True)])]
    [(0.0, 1.0), (10.0, 0.667), (30.0, 0.0)]
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    curve = [(0.0, 1.0, 1.0, 1.0)]
    share, greenwood = 1.0, 0.0
    for step in sorted({steps for steps, crashed in ends if crashed}):
        at_risk = sum(steps >= step for steps, _ in ends)
        crashes = sum(crashed and steps == step for steps, crashed in ends)
        share *= 1 - crashes / at_risk
        if crashes == at_risk:
            curve.append((float(step), 0.0, 0.0, curve[-1][3]))
            break
        greenwood += crashes / (at_risk * (at_risk - crashes))
        spread = math.exp(z * math.sqrt(greenwood) / -math.log(share))
        curve.append((float(step), share, share**spread, share ** (1 / spread)))
    return tuple(curve)
