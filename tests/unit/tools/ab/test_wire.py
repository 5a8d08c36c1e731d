"""What another host says of a repeat is kept only if the study can be read afterwards."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest

from ttf.tools.ab.hosts.node0 import _pairs
from ttf.tools.ab.hosts.wire import finished_from
from ttf.tools.ab.setup import ABSetup, Arm
from ttf.tools.ab.study import ABStudy
from ttf.tools.studies.one_run import Result

ARMS = tuple(Arm(name=n, toml=f"{n}.toml", toml_sha256="0", slug=n) for n in ("a", "b"))
SETUP = ABSetup(arms=ARMS, cwd="", repeats=2)


def told(sample: dict[str, Any], **other: Any) -> dict[str, Any]:
    cell = SETUP.cells[0]._asdict()
    document = {
        "sample": {**cell, "outcome": "clean", "steps": 3, **sample},
        "result": get_args(Result)[0],
        "classes": [],
        "exit_code": 0,
        "error": None,
        "evaluating_s": 0.5,
        **other,
    }
    found: dict[str, Any] = json.loads(json.dumps(document))
    return found


@pytest.mark.parametrize(
    "found",
    [
        told({"metrics": {"val/recall@10": math.nan}}),
        told({"wall_s": math.inf}),
        told({"exit_code": 1 << 70}),
        told({"loss": [[n, 0.5] for n in range(100_000)]}),
        told({}, exit_code=math.inf),
        told({}, evaluating_s=10**400),
        told({}, exit_code="0"),
    ],
)
def test_a_result_that_could_not_be_read_back_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        finished_from(found, SETUP, host="b", attempt=1)


def test_a_result_that_is_taken_is_read_back(tmp_path: Path) -> None:
    study = ABStudy(folder=tmp_path, setup=SETUP)
    study.write_settings()
    found = told({"metrics": {"val/recall@10": 0.25}, "loss": [[n, 0.5] for n in range(1000)]})
    study.remember(finished_from(found, SETUP, host="b", attempt=1).run)
    assert ABStudy.read(tmp_path).runs == study.runs


def test_a_host_that_comes_back_holds_blocks_and_attempts_that_are_counts() -> None:
    held = [[1, 2], [1, 1 << 64], [-1, 1], [True, 1], [1], "x", [1, 2.0]]
    assert _pairs(held) == [(1, 2)]
