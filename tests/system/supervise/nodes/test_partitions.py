"""The cable between two hosts is cut, for a moment and for longer than anybody waits."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.hosts import Direction, Hosts
from tests.kit.several import Several, reaches, strikes, until
from tests.kit.struck_run import incidents_of
from tests.kit.widely import wide
from tests.system.supervise.nodes.test_hosts import BACK_S, assert_equal, both_train, started


@wide
def test_a_short_partition_is_no_incident(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    with started(several, hosts, tmp_path, scale__exchange_timeout_s=15) as pair:
        reaches(pair.a, pair.run_a, 12)
        hosts.cut()
        time.sleep(5)
        hosts.heal()
        assert_equal(pair, undisturbed)
        for run in (pair.run_a, pair.run_b):
            assert incidents_of(run) == []


@wide
@pytest.mark.parametrize("direction", ["both", "from a", "from b"])
def test_a_long_partition_is_named_on_both_sides_and_healed(
    several: Several,
    hosts: Hosts,
    tmp_path: Path,
    undisturbed: dict[str, Any],
    direction: Direction,
) -> None:
    with started(several, hosts, tmp_path, scale__exchange_timeout_s=10) as pair:
        reaches(pair.a, pair.run_a, 12)
        hosts.cut(direction)
        time.sleep(30)
        hosts.heal()
        took = until(lambda: both_train(pair, 12), "both train again", 60)
        assert took <= BACK_S, took
        assert_equal(pair, undisturbed)
        found = [
            incident["class"] for run in (pair.run_a, pair.run_b) for incident in incidents_of(run)
        ]
        if direction == "both":
            assert found == ["network-partition", "network-partition"]
        else:  # the side that still hears the other is told when that one hangs up
            assert set(found) <= {"network-partition", "peer-lost"} and len(found) == 2
            assert "network-partition" in found


@wide
@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_rank_that_stands_still_is_named_on_both_hosts(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any], letter: str
) -> None:
    timeout_s = 10
    with started(several, hosts, tmp_path, scale__exchange_timeout_s=timeout_s) as pair:
        live, run = (pair.a, pair.run_a) if letter == "a" else (pair.b, pair.run_b)
        strikes(reaches(live, run, 12), signal.SIGSTOP)
        took = until(
            lambda: all(incidents_of(each) for each in (pair.run_a, pair.run_b)), "it is named", 60
        )
        assert took <= timeout_s + 10, took
        assert_equal(pair, undisturbed)
        for each in (pair.run_a, pair.run_b):
            (incident,) = incidents_of(each)
            assert (incident["class"], incident["host"]) == ("hang", f"host-{letter}")
            stacks = (each / "incidents" / "001" / "faulthandler.txt").read_text()
            assert "most recent call first" in stacks
