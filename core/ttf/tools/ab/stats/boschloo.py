"""Boschloo's exact test of two crash rates, and its power by enumeration.

Fisher's test fixes the total of crashes, but no study does; with 10 to 40 repeats its true error is
near 1 or 2% instead of 5%. Boschloo takes Fisher's p as the distance of two arms, and computes how
often it is so small at any common rate: as exact, and never weaker. To tell 0.05 from 0.4 with 80%
power takes 20 repeats each instead of 24, 33 instead of 37 after Holm's correction over eight; with
15 repeats each the power is 67% instead of 52%.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Table = npt.NDArray[np.bool_]

_RATES = 256
_FINER = 64
_TIE = 1e-10


def p_value(a: int, of_a: int, b: int, of_b: int) -> float:
    """Two-sided: twice the side seen. `a` crashes of `of_a` repeats, `b` of `of_b`.

    >>> round(p_value(1, 20, 9, 20), 4)
    0.004
    """
    if a * of_b == b * of_a:
        return 1.0
    if a * of_b > b * of_a:
        return p_value(b, of_b, a, of_a)
    fisher = _fisher(of_a, of_b)
    as_far = fisher <= fisher[a, b] * (1 + _TIE)
    rates = (np.arange(2 * _RATES) + 0.5) / (2 * _RATES)
    best = float(rates[int(np.argmax(_size(as_far, rates)))])
    near = np.clip(best + np.linspace(-1, 1, _FINER + 1) / (2 * _RATES), 1e-9, 1 - 1e-9)
    return min(1.0, 2 * float(_size(as_far, near).max()))


def power(p: float, q: float, n: int, alpha: float) -> float:
    """The chance of p < alpha with `n` repeats each, if arms crash with these probabilities.

    >>> round(power(0.05, 0.4, 20, 0.05), 3)
    0.806
    """
    less = _rejects(n, alpha)
    return float(chances(p, n) @ (less | less.T) @ chances(q, n))


def chances(p: float, n: int) -> Floats:
    """Binomial, of 0 to n crashes."""
    chance: Floats = _binomial(n, np.array([p]))[0]
    return chance


@functools.lru_cache(maxsize=256)
def _rejects(n: int, alpha: float) -> Table:
    """The tables (crashes of A, crashes of B) of equal arms for which A is found stabler.

    The largest set of clearest tables with a chance below alpha / 2 at every common rate; rates
    above 1/2 mirror those below.
    """
    fisher = _fisher(n, n)
    levels = np.unique(fisher)
    rates = (np.arange(_RATES) + 1) / (2 * _RATES)
    low, high = -1, len(levels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        size = _size(fisher <= levels[middle] * (1 + _TIE), rates).max()
        low, high = (middle, high) if 2 * size < alpha else (low, middle)
    if low < 0:
        return np.zeros_like(fisher, bool)
    rejected: Table = fisher <= levels[low] * (1 + _TIE)
    return rejected


def _size(tables: Table, rates: Floats) -> Floats:
    """The chance of these tables at each common rate."""
    of_a, of_b = tables.shape[0] - 1, tables.shape[1] - 1
    size: Floats = ((_binomial(of_a, rates) @ tables) * _binomial(of_b, rates)).sum(axis=1)
    return size


def _binomial(n: int, rates: Floats) -> Floats:
    """One row for each rate."""
    k = np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(k == 0, 0.0, k * np.log(rates)[:, None])
        logs = logs + np.where(k == n, 0.0, (n - k) * np.log1p(-rates)[:, None])
    chance: Floats = np.exp(_log_ways(n) + logs)
    return chance


@functools.lru_cache(maxsize=256)
def _log_ways(n: int) -> Floats:
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    return np.array(logs)


@functools.lru_cache(maxsize=256)
def _fisher(of_a: int, of_b: int) -> Floats:
    """Fisher's one-sided p of every table: the chance of as few crashes of A, given the total."""
    first = np.arange(of_a + 1)[None, :]
    second = np.arange(of_a + of_b + 1)[:, None] - first
    possible = (second >= 0) & (second <= of_b)
    logs = _log_ways(of_a)[first] + _log_ways(of_b)[np.clip(second, 0, of_b)]
    logs = np.where(possible, logs, -np.inf)
    chance = np.exp(logs - logs.max(axis=1, keepdims=True))
    tail = np.cumsum(chance, axis=1) / chance.sum(axis=1, keepdims=True)
    a, b = np.meshgrid(np.arange(of_a + 1), np.arange(of_b + 1), indexing="ij")
    one_sided: Floats = tail[a + b, a]
    return one_sided
