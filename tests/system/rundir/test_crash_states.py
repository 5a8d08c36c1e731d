"""The power goes at any moment: what may be on disk then is recovered by the real code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.kit.crash_states import State, crash_states, tree_of
from tests.kit.recorded_disk import recorded
from tests.kit.small_run import (
    assert_state,
    assert_whole,
    begin,
    recovered,
    snapshot,
    write_run,
)

from ttf.errors import NoCheckpoint
from ttf.rundir.durable import Operation
from ttf.rundir.verified_folders import newest_step
from ttf.training import checkpoint

CHAOS = os.environ.get("TTF_CHAOS") == "1"
MOST_STATES = 40_000 if CHAOS else 300
SEEDS = range(1, 6) if CHAOS else (1,)
ENOUGH_STATES = 200
"""To show that a protocol is broken."""


class Recording:
    """What a run did to its folder, and when it was told that a step is durable."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = tree_of(root)
        self.acknowledged: list[tuple[int, int]] = []
        self.operations: Sequence[Operation] = ()

    def run(self, start: int, stop: int) -> None:
        with recorded() as operations:

            def tell(saved: int = -1, said: str = "") -> None:
                assert not said
                self.acknowledged.append((len(operations), saved))

            write_run(self.root, tell=tell, start=start, stop=stop)
        self.operations = operations

    def promised(self, done: int, before: int) -> int:
        """The step that a crash after so many operations must not lose."""
        return max((step for at, step in self.acknowledged if at <= done), default=before)

    def states(self, at_most: int = MOST_STATES, seed: int = 1) -> list[State]:
        return crash_states(self.root, self.before, self.operations, seed=seed, at_most=at_most)


def check(state: State, root: Path, promised: int, attempted: int) -> str:
    """Why this state breaks the promise; empty if it does not."""
    try:
        state.materialise(root)
        seen_by_supervisor = newest_step(root / "checkpoints")
        try:
            found = recovered(root)
        except NoCheckpoint as error:
            return "" if promised < 0 else f"unrecoverable: {error}"
        if not promised <= found.step <= attempted:
            return f"acknowledged {promised}, found {found.step}"
        if seen_by_supervisor > found.step:
            return f"the supervisor saw {seen_by_supervisor}, resume took {found.step}"
        assert_whole(root, found)
    except AssertionError as error:
        return f"not whole: {error}"
    finally:
        shutil.rmtree(root)
    return ""


def problems(
    recording: Recording, ram: Path, before: int, stop: int, at_most: int = MOST_STATES
) -> Iterator[str]:
    states = [state for seed in SEEDS for state in recording.states(at_most, seed)]
    assert len(states) > min(at_most / 3, 500), "hardly any state was reached"
    for state in states:
        promised = recording.promised(state.done, before)
        if problem := check(state, ram / "crashed", promised, stop):
            yield f"{state.label}: {problem}"


def test_a_new_run_loses_nothing_it_was_told_is_durable(ram: Path) -> None:
    recording = Recording(begin(ram / "run"))
    recording.run(0, 4)
    assert [step for _, step in recording.acknowledged] == [1, 2, 3, 4]
    assert list(problems(recording, ram, -1, 4)) == []


def test_a_resumed_run_that_replaces_and_removes_damaged_checkpoints_loses_nothing(
    ram: Path,
) -> None:
    root = begin(ram / "run")
    write_run(root, tell=lambda **_: None, stop=2)
    for damaged in (3, 7):  # one is written again under its name, one is newer than all
        path = root / "checkpoints" / f"step-{damaged:09d}"
        shutil.copytree(root / "checkpoints" / "step-000000002", path)
        (path / "optimizer.safetensors").write_bytes(b"torn")
    assert recovered(root).step == 2
    recording = Recording(root)
    recording.run(2, 4)
    assert [step for _, step in recording.acknowledged] == [3, 4]
    left = sorted(path.name for path in (root / "checkpoints").iterdir())
    assert left == ["step-000000003", "step-000000004"]
    assert list(problems(recording, ram, 2, 4)) == []


@pytest.mark.parametrize("broken", ["no fsync of files", "no fsync of folders", "prune first"])
def test_the_enumerator_finds_protocols_that_are_broken(ram: Path, broken: str) -> None:
    root = begin(ram / "run")
    recording = Recording(root)
    recording.run(0, 4)
    skipped = {"no fsync of files": "fsync", "no fsync of folders": "fsync_dir"}.get(broken)
    if skipped:
        kept = [operation.verb != skipped for operation in recording.operations]
        recording.operations = [
            o for o, keep in zip(recording.operations, kept, strict=True) if keep
        ]
        recording.acknowledged = [(sum(kept[:at]), step) for at, step in recording.acknowledged]
    else:
        operations = list(recording.operations)
        removal = next(i for i, o in enumerate(operations) if "gone" in str(o.target))
        last = removal + next(
            i for i, o in enumerate(operations[removal:]) if o.name == "checkpoint.rmdir"
        )
        # The first two checkpoints go before the third one is begun.
        begun = [i for i, o in enumerate(operations) if o.name == "checkpoint.mkdir"][2]
        goes = operations[removal : last + 1]
        other = [_of_step(o, 2) for o in goes]
        recording.operations = [*operations[:begun], *goes, *other, *operations[begun:removal]]
        recording.acknowledged = recording.acknowledged[:2]
    assert next(problems(recording, ram, -1, 4, ENOUGH_STATES), None)


def _of_step(operation: Operation, step: int) -> Operation:
    import dataclasses

    def renamed(path: Path) -> Path:
        return Path(str(path).replace("step-000000001", f"step-{step:09d}"))

    target = operation.target and renamed(operation.target)
    return dataclasses.replace(operation, path=renamed(operation.path), target=target)


def test_what_is_loaded_is_what_was_verified(ram: Path) -> None:
    """Every state in which a checkpoint is under its name without having been fsynced is refused
    by its hashes, not by luck: the damage is named."""
    root = begin(ram / "run")
    write_run(root, tell=lambda **_: None, stop=1)
    recording = Recording(root)
    with recorded() as operations:
        checkpoint.save(root / "checkpoints", snapshot(2))
    recording.operations = [o for o in operations if o.verb != "fsync"]
    said: list[str] = []
    for state in recording.states():
        state.materialise(ram / "crashed")
        found = recovered(ram / "crashed", said.append)
        assert found.step in (1, 2)
        assert_state(found)
        shutil.rmtree(ram / "crashed")
    assert any("model.safetensors does not match" in line for line in said)
    assert any("checkpoint.json cannot be read" in line for line in said)
