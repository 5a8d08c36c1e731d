"""Every operation of a run that saves checkpoints fails once, in turn, in every way it can."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.kit.fixtures.durability import Forker
from tests.kit.recorded_disk import recorded
from tests.kit.small_run import assert_whole, begin, recovered, snapshot, write_run

from ttf.rundir import durable, failpoints
from ttf.training import checkpoint

CHAOS = os.environ.get("TTF_CHAOS") == "1"
STEPS = 8 if CHAOS else 4
BEGUN = 2
"""Steps whose checkpoints are there before the disturbance."""
TURN = {"enospc": 0, "eio": 1}
"""Errors of the disk take turns: they go the same way, and differ in their words."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = begin(tmp_path_factory.mktemp("begun") / "run")
    write_run(root, tell=lambda **_: None, stop=BEGUN)
    return root


@pytest.fixture(scope="module")
def names(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the undisturbed continuation does, in order."""
    root = tmp_path_factory.mktemp("counted") / "run"
    shutil.copytree(begun, root)
    with recorded() as operations:
        write_run(root, tell=lambda **_: None, start=BEGUN, stop=STEPS)
    return [operation.name for operation in operations]


def test_the_undisturbed_run_passes_every_kind_of_operation(names: list[str]) -> None:
    verbs = ("create", "write", "fsync", "rename", "fsync_dir", "unlink", "mkdir", "rmdir")
    assert {f"checkpoint.{verb}" for verb in verbs} <= set(names)
    assert {"metrics.write", "metrics.fsync", "candidates.write", "candidates.fsync"} <= set(names)


@pytest.mark.parametrize("fault", ["kill", "enospc", "eio", "short"])
def test_a_fault_at_any_operation_costs_no_acknowledged_checkpoint(
    fault: str, begun: Path, names: list[str], forker: Forker, ram: Path
) -> None:
    for number, name in enumerate(names, 1):
        if fault == "short" and not name.endswith(".write"):
            continue
        if number % 2 == TURN.get(fault) and not CHAOS:
            continue
        root = ram / f"run{number}"
        shutil.copytree(begun, root)
        ended = forker.run(root, f"*:{number}:{fault}", start=BEGUN, stop=STEPS)
        where = f"{fault} at operation {number}, {name}: {ended}"
        found = recovered(root)
        assert found.step >= max(BEGUN, ended.acknowledged), where
        assert_whole(root, found)
        if fault == "kill":
            assert ended.status == -9, where
            assert found.step <= STEPS
        elif number > names.index("metrics.fsync_dir") + 1:  # a run may not begin on a bad disk
            assert ended.status == 0, where
            assert found.step == STEPS or (fault != "short" and ended.said), where
        if fault == "short":
            assert not ended.said, where
        shutil.rmtree(root)


def test_a_disk_that_lies_is_found_out_before_anything_older_goes(
    begun: Path, names: list[str], forker: Forker, ram: Path
) -> None:
    writes = names.count("checkpoint.write")
    assert writes >= 10
    for number in range(1, writes + 1):
        root = ram / f"run{number}"
        shutil.copytree(begun, root)
        ended = forker.run(root, f"checkpoint.write:{number}:lie", start=BEGUN, stop=STEPS)
        assert ended.status == 0, ended
        assert any("read it again" in text for text in ended.said), ended
        found = recovered(root)
        assert found.step in (STEPS, STEPS - 1)
        assert_whole(root, found)
        assert len(list((root / "checkpoints").glob("step-*"))) == 2
        shutil.rmtree(root)


def test_after_a_failed_fsync_no_file_is_fsynced_again(begun: Path, ram: Path) -> None:
    root = ram / "run"
    shutil.copytree(begun, root)
    failing = failpoints.Failpoint.parse("*.fsync:1+:eio")
    asked: list[Path] = []

    def note(operation: durable.Operation, act: durable.Act) -> int:
        if operation.verb == "fsync":
            asked.append(operation.path)
        return failing(operation, act)

    with durable.intercepted(note):
        for _ in range(5):
            with pytest.raises(Exception, match="Input/output error"):
                checkpoint.save(root / "checkpoints", snapshot(4))
            with pytest.raises(Exception, match="Input/output error"):
                durable.write_json(root / "summary.json", {})
    assert len(asked) == len(set(asked)) == 10
    assert not list(root.rglob(".tmp-*"))
    assert recovered(root).step == BEGUN


@pytest.mark.parametrize(
    "text",
    ["checkpoint.write", "a:b:kill", "a:0:kill", "a:1:boom", "a:1:kill=3", "a:1:sleep=x", ":::"],
)
def test_a_failpoint_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TTF_FAILPOINT"):
        failpoints.Failpoint.parse(text)


def test_a_process_without_the_variable_has_no_failpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(failpoints.VARIABLE, raising=False)
    assert failpoints.from_environment() is None
    monkeypatch.setenv(failpoints.VARIABLE, "checkpoint.*:3+:sleep=0.5")
    point = failpoints.from_environment()
    assert point is not None
    assert (point.pattern, point.first, point.on, point.fault) == ("checkpoint.*", 3, True, "sleep")
    assert point.seconds == 0.5
