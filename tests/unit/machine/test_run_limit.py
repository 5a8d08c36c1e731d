"""`memory.limit`: a share of the limit in force, or bytes, and never more than is in force."""

from __future__ import annotations

import doctest

import pytest

from ttf.config.resolve import resolve
from ttf.errors import ConfigError
from ttf.machine.memory import run_limit
from ttf.machine.memory.limits import Limit
from ttf.machine.memory.run_limit import asked_limit

GROUP = Limit(4 << 30, "cgroup /job (memory.max)")


def test_the_examples_hold() -> None:
    assert doctest.testmod(run_limit).failed == 0


def test_auto_is_the_limit_in_force() -> None:
    assert asked_limit("auto", GROUP) == GROUP


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("50%", 2 << 30), ("100%", 4 << 30), ("1GiB", 1 << 30), (1 << 20, 1 << 20), ("9GiB", 4 << 30)],
)
def test_it_is_never_more_than_the_limit_in_force(asked: str | int, expected: int) -> None:
    assert asked_limit(asked, GROUP).bytes == expected


def test_a_share_follows_a_limit_that_changes() -> None:
    smaller = Limit(GROUP.bytes // 2, GROUP.source)
    assert asked_limit("60%", smaller).bytes * 2 == pytest.approx(asked_limit("60%", GROUP).bytes)


@pytest.mark.parametrize("wrong", ["0%", "101%", "much", "-1", 0, "0", "12 %%"])
def test_what_is_no_limit_is_refused_by_its_key(wrong: str | int) -> None:
    with pytest.raises(ConfigError, match=r"memory\.limit"):
        resolve(flags={"memory.limit": wrong})
