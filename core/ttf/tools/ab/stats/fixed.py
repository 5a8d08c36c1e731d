"""When may one say that the crashes are gone? For a constant hazard, of unknown size."""

from __future__ import annotations

import math


def times_the_mean(crashes: int, alpha: float = 0.05) -> float:
    """How many times the control's mean length to crash must be clean: r (alpha^(-1/r) - 1).

    The well-known 3 times (for 95%) holds for a known mean; `crashes` is what it was learnt of.

    >>> [round(times_the_mean(r), 1) for r in (1, 2, 3, 5, 10)]
    [19.0, 6.9, 5.1, 4.1, 3.5]
    """
    return crashes * (math.pow(alpha, -1 / crashes) - 1)


def needed_steps(crashes: int, control_steps: int, alpha: float = 0.05) -> int:
    """Steps without a crash that it takes, beside a control that crashed so often in its steps."""
    return math.ceil(times_the_mean(crashes, alpha) * control_steps / crashes)


def p_value(crashes: int, control_steps: int, clean_steps: int) -> float:
    """The chance that all crashes fall into the control's steps, were the hazard the same in both.

    >>> round(p_value(1, 100, 1900), 3)
    0.05
    """
    return math.pow(control_steps / (control_steps + clean_steps), crashes)
