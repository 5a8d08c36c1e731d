"""When crashes may be called fixed, for a constant hazard of unknown size."""

from __future__ import annotations

import math


def times_the_mean(crashes: int, alpha: float = 0.05) -> float:
    """How many times the control's mean length to crash must be clean: r (alpha^(-1/r) - 1).

    The well-known 3 times (for 95%) is for a known mean; here it is estimated from `crashes`.

    >>> [round(times_the_mean(r), 1) for r in (1, 2, 3, 5, 10)]
    [19.0, 6.9, 5.1, 4.1, 3.5]
    """
    return crashes * (math.pow(alpha, -1 / crashes) - 1)


def needed_steps(crashes: int, control_steps: int, alpha: float = 0.05) -> int:
    """The steps without a crash that are needed, for a control with so many crashes in its steps."""
    return math.ceil(times_the_mean(crashes, alpha) * control_steps / crashes)


def p_value(crashes: int, control_steps: int, clean_steps: int) -> float:
    """The chance that all crashes fall into the control's steps, if the hazard is the same in both.

    >>> round(p_value(1, 100, 1900), 3)
    0.05
    """
    return math.pow(control_steps / (control_steps + clean_steps), crashes)
