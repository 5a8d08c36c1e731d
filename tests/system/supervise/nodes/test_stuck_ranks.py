"""A rank that no signal reaches: its interpreter is held by native code, or the kernel holds it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit import saboteur as sabotage
from tests.kit.fixtures.frozen import Freeze
from tests.kit.hosts import Hosts
from tests.kit.several import Several, reaches, results, until
from tests.kit.struck_run import incidents_of
from tests.kit.widely import wide
from tests.system.supervise.nodes.test_hosts import assert_equal, started

TIMEOUT_S = 10
TOWER = ("--tower", "sabotaged")
SETS: dict[str, Any] = {"tower__query__hidden": None, "observers": '["sabotaged"]'}


@pytest.fixture
def sabotaged(several: Several, tmp_path: Path) -> Several:
    sabotage.install(tmp_path / "site")
    return replace(several, plugins=tmp_path / "site")


@wide
def test_a_rank_whose_interpreter_is_held_is_named_on_both_hosts(
    sabotaged: Several, hosts: Hosts, tmp_path: Path
) -> None:
    run = tmp_path / "undisturbed"
    with sabotaged.start(run, sabotaged.train(run, *TOWER, **SETS)) as live:
        alone = live.wait()
    assert alone.code == 0, alone.err
    holds = sabotage.spec(tmp_path / "notes", "forward", "hold", step=12)
    os.environ |= sabotage.variable(holds)
    try:
        limit = {"scale__exchange_timeout_s": TIMEOUT_S}
        with started(sabotaged, hosts, tmp_path, *TOWER, **limit, **SETS) as pair:
            until((tmp_path / "notes" / "reached").exists, "a rank is held")
            both_name_it(pair.run_a, pair.run_b)
            assert_equal(pair, {"weights": alone.digest, **results(run)})
    finally:
        del os.environ[sabotage.VARIABLE]
    assert named(pair.run_a) == named(pair.run_b)
    stacks = [(each / "incidents/001/faulthandler.txt") for each in (pair.run_a, pair.run_b)]
    assert any("hold_the_interpreter" in path.read_text() for path in stacks)


@wide
@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_rank_that_the_kernel_holds_is_named_on_both_hosts(
    several: Several,
    hosts: Hosts,
    frozen: Freeze,
    tmp_path: Path,
    undisturbed: dict[str, Any],
    letter: str,
) -> None:
    """No signal ends it, so that training can only go on when the kernel lets it go."""
    with started(several, hosts, tmp_path, scale__exchange_timeout_s=TIMEOUT_S) as pair:
        live, run = (pair.a, pair.run_a) if letter == "a" else (pair.b, pair.run_b)
        thaw = frozen(reaches(live, run, 12))
        both_name_it(pair.run_a, pair.run_b)
        thaw()
        assert_equal(pair, undisturbed)
    assert named(pair.run_a) == named(pair.run_b) == [("hang", f"host-{letter}")]


def both_name_it(*runs: Path) -> None:
    took = until(lambda: all(incidents_of(run) for run in runs), "it is named", 60)
    assert took <= TIMEOUT_S + 10, took


def named(run: Path) -> list[tuple[str, str]]:
    return [(incident["class"], incident["host"]) for incident in incidents_of(run)]
