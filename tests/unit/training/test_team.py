"""Work that several processes share has the bits of the same work of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.small_training import FP32, IDENTITY, MLP, World, open_small
from tests.kit.world_of_threads import together

from ttf.errors import StorageError
from ttf.training import evaluation, team as team_work
from ttf.training.calibration.hubness import Hubness, by_positive
from ttf.training.calibration.ranks import Ranked, ranks_by_factor
from ttf.training.calibration.work import Work
from ttf.training.evaluation import evaluate
from ttf.training.round_cut import cut_round
from ttf.training.team import ALONE, OthersFailed, Team

SIZES = pytest.mark.parametrize("size", [2, 3, 5])


def same(size: int, work: Callable[[Team], Any]) -> None:
    wanted = work(ALONE)
    for found in together(size, work):
        assert np.array_equal(found, wanted) if isinstance(wanted, np.ndarray) else found == wanted


@settings(max_examples=20, deadline=None)
@given(
    size=st.sampled_from([2, 3, 5]),
    count=st.integers(1, 60),
    block=st.integers(1, 9),
    at_once=st.integers(1, 40),
)
def test_all_get_the_whole_however_it_is_cut(
    size: int, count: int, block: int, at_once: int
) -> None:
    rows = np.arange(count * 3, dtype=np.int64).reshape(count, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team_work, "_PIECE_BYTES", at_once * 24)
        same(
            size,
            lambda its: its.whole("rows", count, block, lambda own: rows[own.start : own.stop]),
        )


@SIZES
def test_a_disk_that_refuses_one_part_lets_all_begin_again(size: int) -> None:
    tried = []

    def work(team: Team) -> str:
        def write() -> str:
            tried.append(1)
            if team.mine(list(range(size))) == 1 and len(tried) <= size:
                raise OSError(28, "No space left on device")
            return "written"

        while True:
            try:
                return team.stage("a file", write)
            except OthersFailed as error:
                assert "No space left" in str(error)
            except StorageError as error:
                assert "a file" in str(error)

    assert together(size, work) == ["written"] * size
    assert len(tried) == 2 * size


@SIZES
@pytest.mark.parametrize("doc", [IDENTITY, MLP], ids=lambda doc: doc["name"])
def test_an_evaluation_has_the_same_bits(
    size: int, doc: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_TILE_ROWS", 3)
    data = open_small(tmp_path)
    made = World(data, doc=doc)
    made.run(3)
    made.documents.block_rows = 17
    parts = made.model, data.val, made.documents, made.policy, FP32, 7, (1, 5, 60)
    same(size, lambda team: evaluate(*parts, team=team))


@SIZES
def test_a_calibration_has_the_same_bits(size: int, tmp_path: Path) -> None:
    world = World(open_small(tmp_path))
    documents = world.documents
    documents.block_rows = 7
    rng = np.random.default_rng(1)
    queries = rng.standard_normal((40, documents.dim)).astype(np.float32)
    known = rng.integers(0, documents.rows, (40, 1))
    ids = np.arange(0, documents.rows, 2)
    numbers = iter(range(100))

    def work(team: Team) -> NDArray[Any]:
        hubness = Hubness(documents, queries, by_positive(known, documents.rows), 3, 1)
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        some = team.whole("some", len(ids), 7, lambda own: hubness.of_some(ids[own], _nothing))
        ranked = Ranked(documents, ids, some, _nothing)
        ranks = ranks_by_factor(ranked, torch.from_numpy(queries), known // 2 * 2, (0.0, 0.5), team)
        found = hubness.of_bank(Work(folder, "key"), ids, some, _nothing, team)
        return np.concatenate([found, ranks[0.0].ravel(), ranks[0.5].ravel()])

    same(size, work)


def _nothing(done: int, total: int) -> None: ...


@given(
    queries=st.integers(1, 20_000),
    rows=st.integers(1, 20_000),
    mines=st.lists(st.booleans(), min_size=1, max_size=7),
    by_rows=st.booleans(),
)
def test_every_query_is_answered_once_from_the_whole_bank(
    queries: int, rows: int, mines: list[bool], by_rows: bool
) -> None:
    from tests.kit.world_of_threads import WorldOfThreads, _Board

    team = Team(WorldOfThreads(0, len(mines), _Board(len(mines))))
    cut = cut_round(team, mines, queries, rows, by_rows=by_rows)
    for at, (asked, bank) in enumerate(zip(cut.queries, cut.rows, strict=True)):
        assert bool(asked) == bool(bank)
        assert not asked or at == 0 or mines[at]
    searched = sum(
        len(asked) * len(bank) for asked, bank in zip(cut.queries, cut.rows, strict=True)
    )
    assert searched == queries * rows
    split = cut.rows if by_rows else cut.queries
    ends = [0, *(part.stop for part in split if part)]
    assert ends == [*(part.start for part in split if part), rows if by_rows else queries]
