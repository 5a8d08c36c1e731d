"""The embedding table against all rows in one tensor, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kit.dense_table import DIM, ROWS, DenseTable, changes, open_table, states, write_table

from ttf.data.embedding.table import EmbeddingTable
from ttf.errors import ArtifactDamaged, ConfigError, FolderInUse

EVERYTHING = torch.arange(ROWS)


@pytest.mark.parametrize("ahead", [0, 1, 7])
def test_with_memory_for_a_third_of_the_rows_every_value_is_that_of_one_tensor(
    ahead: int, tmp_path: Path
) -> None:
    dense = DenseTable(ROWS, DIM)
    made = [change for some in changes() for change in some]
    with open_table(tmp_path) as table:
        for _, ids, _ in made[:ahead]:
            table.prefetch(ids)
        for number, (name, ids, values) in enumerate(made):
            assert torch.equal(table.get(ids), dense.values[ids])
            getattr(table, name)(ids, values)
            getattr(dense, name)(ids, values)
            if ahead and number + ahead < len(made):
                table.prefetch(made[number + ahead][1])
        assert table.stats().evictions > 0
        assert torch.equal(table.get(EVERYTHING), dense.values)


def test_what_was_announced_is_waited_for_and_not_read_in_a_call(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    batches = [torch.from_numpy(draw.permutation(ROWS)[:10]) for _ in range(30)]
    with open_table(tmp_path) as table:
        for ids in batches[:3]:
            table.prefetch(ids)
        for number, ids in enumerate(batches):
            table.get(ids)
            if number + 3 < len(batches):
                table.prefetch(batches[number + 3])
        stats = table.stats()
    assert stats.demand_loads == 0
    assert stats.disk_loads > 0
    assert stats.hits + stats.late_loads == stats.requests


def test_announced_batches_wait_for_no_read_however_much_is_evicted_meanwhile(
    tmp_path: Path,
) -> None:
    # Two epochs in memory for a third of the rows: rows of this batch are not the first to go, and
    # room for a batch that is read is no room for the next one.
    draw = np.random.default_rng(3)
    order = np.concatenate([draw.permutation(ROWS) for _ in range(4)])
    batches = order.reshape(-1, 5)
    with open_table(tmp_path) as table:
        for ids in batches[:12]:
            table.prefetch(ids)
        for number, ids in enumerate(batches):
            table.apply_gradients(ids, table.get(ids))
            if number + 12 < len(batches):
                table.prefetch(batches[number + 12])
        stats = table.stats()
    assert stats.demand_loads == 0
    assert stats.evictions > 2 * ROWS
    assert stats.requests == order.size


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_is_that_of_torch(optimizer: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    with EmbeddingTable(
        tmp_path, rows=40, dim=5, budget="1MB", optimizer=optimizer, lr=0.01
    ) as table:
        weight = torch.nn.Parameter(table.get(torch.arange(40)).clone())
        kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
        theirs = kinds[optimizer]([weight], lr=0.01)
        for _ in range(6):
            gradient = torch.from_numpy(draw.standard_normal((40, 5)).astype(np.float32))
            weight.grad = gradient
            theirs.step()
            table.apply_gradients(torch.arange(40), gradient)
        assert torch.allclose(table.get(torch.arange(40)), weight.detach(), atol=2e-6)


def test_reopened_it_has_the_rows_of_the_last_sync(tmp_path: Path) -> None:
    wanted = states()
    write_table(tmp_path, lambda _: None)
    table = open_table(tmp_path)
    table.update(EVERYTHING, torch.zeros(ROWS, DIM))
    with pytest.raises(RuntimeError, match="the step failed"), table:
        raise RuntimeError("the step failed")
    with open_table(tmp_path) as again:
        assert torch.equal(again.get(EVERYTHING), wanted[-1])


def test_an_earlier_version_that_was_kept_can_be_opened_again(tmp_path: Path) -> None:
    with open_table(tmp_path) as table:
        table.update(EVERYTHING, torch.zeros(ROWS, DIM))
        first = table.sync(keep=True)
        table.update(EVERYTHING[:50], torch.ones(50, DIM))
        table.sync(keep=True)
        table.abandon()
    with open_table(tmp_path, at_version=first) as table:
        assert not table.get(EVERYTHING).any()
    with pytest.raises(ArtifactDamaged, match="versions 1 to 1, but not 2"):
        open_table(tmp_path, at_version=first + 1)


def test_a_smaller_budget_gives_memory_back_and_changes_no_value(tmp_path: Path) -> None:
    dense = DenseTable(ROWS, DIM)
    with EmbeddingTable(tmp_path, rows=ROWS, dim=DIM, budget="1MB") as table:
        for some in changes():
            for name, ids, values in some:
                getattr(table, name)(ids, values)
                getattr(dense, name)(ids, values)
            table.resize(ROWS * 16 + 100 * 160)
            assert table.stats().most_hot_rows < ROWS
            assert torch.equal(table.get(EVERYTHING), dense.values)
            table.resize("1MB")
        assert torch.equal(table.get(EVERYTHING), dense.values)


def test_a_journal_that_has_grown_is_applied_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.data.embedding.table.JOURNAL_BYTES", 10_000)
    with open_table(tmp_path) as table:
        for some in changes():
            for name, ids, values in some:
                getattr(table, name)(ids, values)
        assert table.stats().syncs > 0
        assert torch.equal(table.get(EVERYTHING), states()[-1])


def test_repeated_ids_are_summed_by_gradients_and_refused_by_assignments(tmp_path: Path) -> None:
    ids = torch.tensor([3, 3, 4])
    with EmbeddingTable(tmp_path, rows=9, dim=2, budget="1MB", optimizer="sgd", lr=1.0) as table:
        before = table.get([3, 4])
        table.apply_gradients(ids, torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]]))
        assert torch.allclose(before - table.get([3, 4]), torch.tensor([[3.0, 0.0], [0.0, 5.0]]))
        with pytest.raises(ValueError, match="distinct"):
            table.update(ids, torch.zeros(3, 2))


def test_wrong_calls_say_what_is_wrong(tmp_path: Path) -> None:
    with EmbeddingTable(tmp_path / "a", rows=9, dim=2, budget="1MB") as table:
        with pytest.raises(IndexError, match="from 0 to 8, but are from 2 to 9"):
            table.get([9, 2])
        with pytest.raises(ValueError, match="whole numbers"):
            table.get([0.5])
        with pytest.raises(ValueError, match=r"must be \(1, 2\), not \(1, 3\)"):
            table.update([1], torch.zeros(1, 3))
        with pytest.raises(FolderInUse, match="in use"):
            EmbeddingTable(tmp_path / "a", rows=9, dim=2)
    with pytest.raises(ValueError, match="is closed"):
        table.get([1])
    with pytest.raises(ConfigError, match="rows = 9, not 10"):
        EmbeddingTable(tmp_path / "a", rows=10, dim=2)
    with pytest.raises(ConfigError, match="Did you mean 'adam'"):
        EmbeddingTable(tmp_path / "b", rows=10, dim=2, optimizer="adamm")
    with pytest.raises(ConfigError, match="too small"):
        EmbeddingTable(tmp_path / "b", rows=100_000, dim=8, budget=1_000_000)
    assert not (tmp_path / "b").exists()


def test_a_table_whose_file_was_cut_or_whose_journal_was_damaged_is_refused(
    tmp_path: Path,
) -> None:
    with open_table(tmp_path) as table:
        table.update(EVERYTHING, torch.zeros(ROWS, DIM))
        table.sync(keep=True)
        table.abandon()
    segment = next((tmp_path / "journal").glob("*.rows"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(ArtifactDamaged, match="damaged in the block"):
        open_table(tmp_path)
    base = tmp_path / "rows.bin"
    base.write_bytes(base.read_bytes()[:-64])
    with pytest.raises(ArtifactDamaged, match="instead of"):
        open_table(tmp_path)


def test_a_new_table_takes_no_space_and_reads_the_same_on_every_machine(tmp_path: Path) -> None:
    with EmbeddingTable(
        tmp_path, rows=1_000_000, dim=64, budget="64MB", optimizer="sgd", seed=3
    ) as table:
        assert table.stats().disk_bytes < 100_000
        found = table.get([0, 999_999])
    assert found[0, :3].tolist() == pytest.approx([0, 0, 0], abs=np.sqrt(3 / 64))
    assert found.std().item() == pytest.approx(1 / 8, rel=0.2)
