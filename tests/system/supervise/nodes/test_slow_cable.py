"""Two hosts that are far from each other: 100 Mb/s, 20 ms each way, and every fiftieth packet is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit.hosts import Hosts
from tests.kit.several import Several
from tests.kit.struck_run import incidents_of
from tests.kit.widely import wide
from tests.system.supervise.nodes.test_hosts import assert_equal, started


@wide
def test_a_whole_run_over_a_slow_and_lossy_cable_ends_with_the_same_bits(
    several: Several, far_hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    with started(several, far_hosts, tmp_path) as pair:
        assert_equal(pair, undisturbed)
        for run in (pair.run_a, pair.run_b):
            assert incidents_of(run) == []
        (exchange,) = {str(ended.summary["exchange"]) for ended in [pair.a.wait()]}
    print(exchange)
