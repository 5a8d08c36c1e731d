"""A miner's worker that dies, hangs or lies at every request: the training never stops."""

from __future__ import annotations

import pytest
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.live_run import Ended
from tests.kit.widely import wide


@wide
def test_a_worker_that_dies_at_every_request_changes_nothing(
    place: FaultyPlace, mined_reference: Ended
) -> None:
    acts = ["kill", "", "segv", "", "abrt", "", "bus", ""]
    done = place.train(settings={**MINED, "miner.faulty.acts": acts}).wait()
    done.assert_clean()
    assert done.code == 0
    assert done.digest == mined_reference.digest
    assert done.summary["exact"] and done.summary["deviations"] == []
    assert done.summary["restarts"] == 0
    classes = ["killed", "segfault", "abort", "bus-error"]
    assert done.listed() == [(name, "miner") for name in classes]
    assert [found["signal"] for found in done.incidents] == [9, 11, 6, 7]
    assert {found["remedy"] for found in done.summary["incidents"]} == {
        "ttf repeats the search in a new process."
    }
    assert (place.faults / "heard").read_text().split() == classes
    assert len({path.read_text() for path in place.faults.glob("asked-*")}) == 5


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        # Hangs of every kind, and what follows: tests/system/mining/test_isolation_faults.py.
        pytest.param(
            {"miner.faulty.acts": ["hold"] * 2, "miner.deadline_s": 5},
            "hang",
            id="hanging",
            marks=wide,
        ),
        # Lies: there; a run whose miner fails twice: test_openmp.py, where its worker aborts.
        pytest.param({"miner.faulty.lies": True}, "unknown", id="lying", marks=wide),
    ],
)
def test_a_miner_that_fails_twice_is_replaced_and_the_numbers_say_so(
    settings: dict[str, object], name: str, place: FaultyPlace
) -> None:
    # Not the exact scan: its process loads torch, which may take longer than the deadline.
    settings = {**MINED, **settings, "miner.fallback": ["hnswlib"]}
    done = place.train(settings=settings).wait()
    done.assert_clean()
    assert done.code == 0
    assert done.listed() == [(name, "miner")] * 2
    assert done.summary["miner"] == "hnswlib" and done.summary["restarts"] == 0
    assert not done.summary["exact"]
    assert done.summary["deviations"] == ["the miner 'faulty' failed and 'hnswlib' took over"]
