"""The file of query vectors that training computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.data.order import Order
from ttf.errors import StorageError
from ttf.rundir.durable import Act, Operation, intercepted
from ttf.training.trained_queries import TrainedQueries

ORDER = Order(size=20, samples_per_step=4, seed=0, fingerprint="")  # 5 steps an epoch
DIM = 3


def vectors(step: int) -> NDArray[np.float32]:
    return (step + np.tile(np.arange(DIM) / 8, (4, 1))).astype(np.float32)


@pytest.fixture
def kept(tmp_path: Path) -> TrainedQueries:
    folder = tmp_path / "candidates"
    folder.mkdir()
    return TrainedQueries(folder, tmp_path, ORDER, DIM)


def there(kept: TrainedQueries, stop: int) -> list[tuple[int, bool]]:
    found = []
    for record in kept.before(stop):
        if record.vectors_SD is not None:
            assert np.array_equal(record.vectors_SD, vectors(record.step))
        found.append((record.step, record.vectors_SD is not None))
    return found


def test_a_round_gets_the_steps_of_the_last_epoch_wherever_it_begins(kept: TrainedQueries) -> None:
    for step in range(12):
        kept.write(step, vectors(step))
    assert list(kept.before(0)) == []
    assert there(kept, 3) == [(0, True), (1, True), (2, True)]
    assert there(kept, 8) == [(step, True) for step in range(3, 8)]
    assert there(kept, 14) == [(9, True), (10, True), (11, True), (12, False), (13, False)]
    kept.close()


def test_what_is_not_as_it_was_written_is_not_used(kept: TrainedQueries, tmp_path: Path) -> None:
    for step in range(5):
        kept.write(step, vectors(step))
    kept.close()
    file = tmp_path / "candidates" / "queries-0.bin"
    content = bytearray(file.read_bytes())
    record = len(content) // 5
    content[record + 40] ^= 1  # a value of step 1
    content[3 * record : 4 * record] = content[2 * record : 3 * record]  # step 2 in the place of 3
    file.write_bytes(content[:-1])  # step 4 is cut
    found = there(kept, 5)
    assert found == [(0, True), (1, False), (2, True), (3, False), (4, False)]
    kept.write(1, vectors(1))  # a resumed run computes it again
    assert there(kept, 5)[1] == (1, True)
    kept.close()


def test_only_what_a_resumed_run_may_need_stays(kept: TrainedQueries, tmp_path: Path) -> None:
    for step in range(0, 20, 5):
        kept.write(step, vectors(step))
    other = tmp_path / "candidates" / "queries-of-mine.bin"
    other.touch()
    kept.remove_unneeded(10)
    left = {path.name for path in (tmp_path / "candidates").iterdir()} - {other.name}
    assert left == {"queries-1.bin", "queries-2.bin", "queries-3.bin"} and other.exists()
    kept.close()


def test_a_failed_sync_fails_the_checkpoint_and_is_tried_again(kept: TrainedQueries) -> None:
    synced = 0

    def once_broken(operation: Operation, act: Act) -> int:
        nonlocal synced
        synced += operation.name == "queries.fsync"
        if operation.name == "queries.fsync" and synced == 1:
            raise OSError(5, "Input/output error")
        return act(memoryview(operation.data))

    kept.write(0, vectors(0))
    with intercepted(once_broken):
        with pytest.raises(StorageError):
            kept.make_durable()
        kept.make_durable()
        kept.make_durable()  # nothing is new
    assert synced == 2
    kept.close()
