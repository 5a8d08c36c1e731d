"""Inputs that change under a run: named with what they were, nothing wrong is saved, nothing lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.faulty_run import FaultyPlace
from tests.kit.live_run import Ended
from tests.kit.widely import CHAOS, wide

from ttf.rundir.verified_folders import newest_step


@pytest.fixture
def own_data(place: FaultyPlace) -> FaultyPlace:
    """The same files, for a test that damages them."""
    folder = place.root / "data"
    folder.mkdir()
    place.data = {
        name: Path(shutil.copy2(path, folder / path.name)) for name, path in place.data.items()
    }
    return place


def interrupted(place: FaultyPlace, change: Callable[[], object]) -> Ended:
    """A run whose inputs change after step 12, of which step 10 is saved."""
    place.hold(12)
    command = place.train()
    command.held(12)
    command.saved(10)
    change()
    command.go(12)
    ended = command.wait()
    ended.assert_clean()
    assert ended.code == 3
    assert newest_step(ended.run / "checkpoints") == 10
    assert ended.summary["restarts"] == 0
    assert ended.summary["exact"] is False
    assert ended.summary["deviations"] == ["the run ended because its data had changed"]
    return ended


@wide  # in the middle of a gather: below
def test_a_file_that_is_cut_while_it_is_mapped_is_named(
    own_data: FaultyPlace, reference: Ended
) -> None:
    place, pairs = own_data, own_data.data["pairs"]
    whole, times = pairs.read_bytes(), pairs.stat()
    ended = interrupted(place, lambda: os.truncate(pairs, 4096))
    (incident,) = ended.incidents
    assert incident["class"] in ("bus-error", "data-changed")
    assert str(pairs) in ended.err
    assert f"{len(whole):,} bytes" in ended.evidence and "4,096 bytes" in ended.evidence
    refused = place.resume(ended.run).wait()
    refused.assert_clean()
    assert refused.code == 3
    assert newest_step(ended.run / "checkpoints") == 10
    pairs.write_bytes(whole)
    os.utime(pairs, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = place.resume(ended.run).wait()
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert done.summary["exact"] is True


def test_a_bank_that_is_rewritten_in_place_is_named(
    own_data: FaultyPlace, reference: Ended
) -> None:
    place, bank = own_data, own_data.data["bank"]
    whole = bank.read_bytes()

    def rewrite() -> None:
        with bank.open("r+b") as file:
            file.seek(-1000, os.SEEK_END)
            start = file.tell()
            byte = file.read(1)
            file.seek(len(whole) // 2)
            file.write(bytes(64))
            assert start and byte

    ended = interrupted(place, rewrite)
    (incident,) = ended.incidents
    assert incident["class"] == "data-changed"
    assert str(bank) in ended.err
    assert ended.evidence.count("fingerprint") == 2
    if CHAOS:  # as after the cut above
        bank.write_bytes(whole)
        done = place.resume(ended.run).wait()
        assert (done.code, done.digest) == (0, reference.digest), done.err


def test_a_file_that_is_cut_in_the_middle_of_a_gather_is_named(own_data: FaultyPlace) -> None:
    """The check before each step has passed: the process dies of SIGBUS."""
    place, pairs = own_data, own_data.data["pairs"]
    place.faults.joinpath("cut-before-gather").write_text(f"12 {pairs}")
    place.hold(7)
    command = place.train(settings={"checkpoint.every_steps": 5})
    command.held(7)
    command.saved(5)
    command.go(7)
    ended = command.wait()
    ended.assert_clean()
    assert ended.code == 3
    (incident,) = ended.incidents
    # The handler that writes the stacks is hit itself now and then.
    assert incident["class"] == "bus-error" and incident["signal"] in (7, 11)
    assert str(pairs) in ended.err
    assert "4,096 bytes" in ended.evidence
    assert newest_step(ended.run / "checkpoints") >= 5
    assert ended.summary["restarts"] == 0


def test_a_chunk_that_is_deleted_is_named(place: FaultyPlace, small_data: dict[str, Path]) -> None:
    from ttf.data.synth import SynthShape, write_synth

    paths = write_synth(
        place.root / "zarr",
        SynthShape(pairs=600, val=60, seq_len=5, dim=16, bank=400, seed=3),
        container="zarr",
    )
    place.data = {"pairs": paths["pairs"], "bank": paths["bank"]}
    chunk = max(
        (
            p
            for p in (paths["pairs"] / "X_train").rglob("*")
            if p.is_file() and p.name != "zarr.json"
        ),
        key=lambda p: p.stat().st_size,
    )
    ended = interrupted(place, chunk.unlink)
    assert str(chunk) in ended.err
    if CHAOS:  # as after the cut above
        assert place.resume(ended.run).wait().code == 3
