"""The conformance suite of miners, compared with a plain numpy scan. Subclass `MinerTests`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.contracts import Kind, MinerContext
from ttf.data.sources import MemorySource
from ttf.data.vectors import from_float32
from ttf.errors import BadData, ConfigError
from ttf.mining.checked_answers import checked_search
from ttf.testing import _children
from ttf.testing._banks import DIM, best_rows, clustered_rows
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.api import Run
    from ttf.contracts import Miner, MinerTraits

BANK: Final = clustered_rows(1, 5000)
QUERIES: Final = clustered_rows(2, 300)
# For tests that fewer rows serve as well: a graph of 5,000 takes half a second to build.
FEWER: Final = BANK[:1500]
BUDGET: Final = 64 << 20
# What allocator and library buffers may add to the memory of a miner.
_SLACK: Final = 48 << 20
_SMALL: Final = 64 << 10
_IDLE: Final = 0.1  # a thread with a smaller share of the time counts as idle

_ON_LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="the test needs /proc")

Answers = tuple[NDArray[np.int64], NDArray[np.float32]]


class MinerTests(PluginTests):
    """Set `name` and `options`; for an approximate miner also `recall_floor`."""

    kind: ClassVar[Kind] = "miner"
    recall_floor: ClassVar[float] = 0.85

    def made(self, factory: Any, chosen: Any, **changes: Any) -> Miner:
        return cast("Miner", factory.create(chosen, self.context(**changes)))

    def context(self, **changes: Any) -> MinerContext:
        granted = {"threads": 2, "seed": 3, "deterministic": True, "budget_bytes": BUDGET}
        return MinerContext(**(granted | changes))

    def built(self, factory: Any, chosen: Any, rows: NDArray[Any], **changes: Any) -> Miner:
        miner = self.made(factory, chosen, **changes)
        miner.build(MemorySource(rows), Path(tempfile.mkdtemp(dir=self._scratch)))
        return miner

    @pytest.fixture(autouse=True)
    def _scratch_folder(self, tmp_path: Path) -> None:
        self._scratch = tmp_path

    @pytest.fixture
    def traits(self, factory: Any, chosen: Any) -> MinerTraits:
        return cast("MinerTraits", factory.traits(chosen, self.context()))

    # --- answers -------------------------------------------------------------------------------

    def test_ids_and_scores_have_their_shapes_and_types(self, factory: Any, chosen: Any) -> None:
        ids, scores = self.built(factory, chosen, FEWER).search(QUERIES, 50)
        assert ids.shape == scores.shape == (300, 50)
        assert ids.dtype == np.int64
        assert scores.dtype == np.float32

    def test_scores_are_dot_products_best_first(self, factory: Any, chosen: Any) -> None:
        ids, scores = self.built(factory, chosen, FEWER).search(QUERIES, 50)
        np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", QUERIES, FEWER[ids]), atol=2e-6)
        assert (np.diff(scores, axis=1) <= 0).all()

    def test_it_finds_the_best(self, factory: Any, chosen: Any, traits: MinerTraits) -> None:
        ids, _ = self.built(factory, chosen, BANK).search(QUERIES, 20)
        truth = best_rows(BANK, QUERIES, 20)
        found = np.mean([len(np.intersect1d(a, b)) / 20 for a, b in zip(ids, truth, strict=True)])
        floor = 0.999 if traits.exact else self.recall_floor
        assert found >= floor, f"found {found:.4f} of the true 20 best rows, among 5,000 rows"

    def test_no_queries_get_no_answers(self, factory: Any, chosen: Any) -> None:
        ids, scores = self.built(factory, chosen, FEWER).search(np.empty((0, DIM), np.float32), 5)
        assert ids.shape == scores.shape == (0, 5)

    def test_a_bank_of_one_row_is_searched(self, factory: Any, chosen: Any) -> None:
        ids, scores = self.built(factory, chosen, BANK[:1]).search(QUERIES[:3], 200)
        assert ids.tolist() == [[0], [0], [0]]
        np.testing.assert_allclose(scores[:, 0], QUERIES[:3] @ BANK[0], atol=1e-6)

    def test_k_is_cut_to_the_bank_and_every_row_comes_once(self, factory: Any, chosen: Any) -> None:
        ids, _ = self.built(factory, chosen, BANK[:70]).search(QUERIES[:20], 500)
        assert (np.sort(ids, axis=1) == np.arange(70)).all()

    def test_a_large_k_is_answered_in_full_without_paddings(
        self, factory: Any, chosen: Any
    ) -> None:
        miner = self.built(factory, chosen, BANK[:900])
        ids, _ = checked_search(miner, QUERIES, 600, 900, name=self.name)
        assert ids.shape == (300, 600)

    def test_equal_rows_all_come_and_exact_miners_order_them_by_id(
        self, factory: Any, chosen: Any, traits: MinerTraits
    ) -> None:
        bank = np.concatenate([np.repeat(BANK[:3], 400, axis=0), BANK[3:900]])
        ids, _ = self.built(factory, chosen, bank).search(BANK[:3], 60)
        if traits.exact:
            for row in range(3):
                assert ids[row].tolist() == list(range(row * 400, row * 400 + 60))
        else:
            assert all(len(set(row)) == 60 for row in ids.tolist())

    def test_two_builds_answer_bit_for_bit_alike_where_that_is_promised(
        self, factory: Any, chosen: Any, traits: MinerTraits
    ) -> None:
        if not traits.deterministic:
            pytest.skip(
                "the miner does not promise deterministic answers, even if the run requires them"
            )
        first, second = (self.built(factory, chosen, BANK).search(QUERIES, 50) for _ in range(2))
        # pytest would search thousands of bytes for what differs, for half a minute.
        same_ids = first[0].tobytes() == second[0].tobytes()
        same_scores = first[1].tobytes() == second[1].tobytes()
        assert same_ids and same_scores, "two builds of the same bank gave different answers"

    def test_half_precision_banks_are_searched_as_what_they_hold(
        self, factory: Any, chosen: Any, tmp_path: Path
    ) -> None:
        stored = from_float32(BANK[:500], "bfloat16")
        miner = self.made(factory, chosen)
        miner.build(MemorySource(stored, dtype="bfloat16"), tmp_path)
        ids, scores = miner.search(QUERIES[:5], 3)
        wide = (stored.astype(np.uint32) << 16).view(np.float32)
        expected = np.einsum("qd,qkd->qk", QUERIES[:5], wide[ids])
        np.testing.assert_allclose(scores, expected, atol=1e-6)

    def test_the_best_below_a_score_are_found_where_that_is_promised(
        self, factory: Any, chosen: Any, traits: MinerTraits
    ) -> None:
        if not traits.looks_below:
            pytest.skip("the miner does not say that it finds the best rows below a score")
        miner = self.built(factory, chosen, BANK)
        ids, scores = miner.search(QUERIES, 400)
        ceilings = scores[:, 300].copy()
        ceilings[::3] = np.inf
        ceilings[1::3] = -np.inf
        for within in (None, 310):
            found, _ = checked_search(
                miner, QUERIES, 20, len(BANK), name=self.name, ceilings=ceilings, within=within
            )
            for query, limit in enumerate(ceilings):
                below = np.flatnonzero(scores[query, :within] < limit)[:20]
                expected = np.full(20, -1)
                expected[: len(below)] = ids[query, below]
                assert found[query].tolist() == expected.tolist()

    # --- what it refuses -------------------------------------------------------------------------

    def test_a_closed_miner_says_that_it_is_closed(self, factory: Any, chosen: Any) -> None:
        miner = self.built(factory, chosen, BANK[:500])
        miner.close()
        with pytest.raises(ConfigError):
            miner.search(QUERIES[:2], 3)

    def test_a_row_that_is_not_finite_is_named(
        self, factory: Any, chosen: Any, tmp_path: Path
    ) -> None:
        bank = BANK[:500].copy()
        bank[321, 5] = np.inf
        bank[400] = np.nan
        miner = self.made(factory, chosen)
        with pytest.raises(BadData, match=r"vectors\[321\] in memory is not finite"):
            miner.build(MemorySource(bank), tmp_path)
            miner.search(QUERIES[:2], 3)

    def test_an_index_that_cannot_fit_the_budget_is_refused_with_the_figure(
        self, factory: Any, chosen: Any, traits: MinerTraits
    ) -> None:
        _needs_index(traits)
        with pytest.raises(ConfigError, match=r"needs about .* of memory, but the budget is"):
            self.built(factory, chosen, BANK, budget_bytes=200_000)

    # --- what it takes ---------------------------------------------------------------------------

    def test_the_cost_grows_with_rows_and_queries(self, factory: Any, chosen: Any) -> None:
        context = self.context(budget_bytes=1 << 30)
        small = factory.estimate(10_000, 64, 100, 10, chosen, context)
        large = factory.estimate(1_000_000, 64, 10_000, 10, chosen, context)
        assert large.search_s > small.search_s
        assert large.build_s >= small.build_s
        assert large.disk_bytes >= small.disk_bytes
        assert 0 <= large.recall <= 1

    @_ON_LINUX
    def test_one_thread_is_one_thread(self, factory: Any, tmp_path: Path) -> None:
        took = _children.answer("threads_used", **self._request(tmp_path, FEWER))["seconds"]
        busy = [seconds for seconds in took if seconds > _IDLE * sum(took)]
        assert len(busy) == 1, (
            f"context.threads was 1, but the other threads used {took} s of CPU time"
        )

    @_ON_LINUX
    def test_memory_stays_within_the_budget_and_what_was_estimated(
        self, factory: Any, tmp_path: Path
    ) -> None:
        bank, queries = clustered_rows(1, 8000, 64), clustered_rows(2, 4000, 64)
        request = self._request(tmp_path, bank, queries) | {"budget_bytes": 32 << 20}
        took = _children.answer("memory_used", **request)
        allowed = max(took["estimate"], request["budget_bytes"]) + took["answers"] + _SLACK
        assert took["grown"] <= allowed, (
            f"it used {took['grown'] >> 20} MiB; the budget is {request['budget_bytes'] >> 20} "
            f"MiB, and its own estimate is {took['estimate'] >> 20} MiB"
        )

    def was_used(self, run: Run) -> None:
        bare = self.name.rpartition(":")[2]
        assert run.summary["miner"].rpartition(":")[2] == bare, "another miner was used instead"

    # --- saving ----------------------------------------------------------------------------------

    def test_a_saved_index_answers_like_the_one_it_was(
        self, factory: Any, chosen: Any, traits: MinerTraits, tmp_path: Path
    ) -> None:
        _needs_index(traits)
        miner = self.built(factory, chosen, FEWER)
        expected = miner.search(QUERIES, 30)
        folder = tmp_path / "index"
        folder.mkdir()
        miner.save(folder)
        loaded = self.made(factory, chosen)
        loaded.load(folder, MemorySource(FEWER))
        for found in (miner.search(QUERIES, 30), loaded.search(QUERIES, 30)):
            assert (found[0] == expected[0]).all()
            assert (found[1] == expected[1]).all()

    def test_the_estimate_of_the_disk_is_what_it_saves(
        self, factory: Any, chosen: Any, traits: MinerTraits, tmp_path: Path
    ) -> None:
        _needs_index(traits)
        miner = self.built(factory, chosen, BANK)
        miner.save(tmp_path)
        saved = sum(path.stat().st_size for path in tmp_path.iterdir() if path.is_file())
        cost = factory.estimate(*BANK.shape, len(QUERIES), 20, chosen, self.context())
        assert saved / 2 - _SMALL <= cost.disk_bytes <= 2 * saved + _SMALL, (
            f"it saved {saved:,} bytes, but its estimate (disk_bytes) is {cost.disk_bytes:,}"
        )
        assert cost.anon_bytes >= saved / 4 - _SMALL, (
            f"it saved {saved:,} bytes, but its estimate of memory (anon_bytes) is only "
            f"{cost.anon_bytes:,}"
        )

    def test_a_disk_that_takes_only_half_of_the_index_is_noticed(
        self, factory: Any, traits: MinerTraits, tmp_path: Path
    ) -> None:
        _needs_index(traits)
        found = _children.answer("save_half", **self._request(tmp_path, FEWER))
        assert found["raised"], (
            "save did not report an incomplete write: compare the sizes of the files"
        )
        assert found["explained"], (
            f"save must raise ttf.StorageError, but it raised {found['raised']}: {found['text']}"
        )

    def test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index(
        self, factory: Any, traits: MinerTraits, tmp_path: Path
    ) -> None:
        _needs_index(traits)
        request = self._request(tmp_path, FEWER) | {"cache": str(tmp_path / "first")}
        whole = _children.ended("keep_index", **request)
        assert whole.answer is not None and whole.answer["kept"], _children.describe_end(whole)
        took = next(float(n["seconds"]) for n in whole.notes if n.get("at") == "saved")
        expected = _answers(request)
        request["cache"] = str(tmp_path / "second")
        for share in (0.0, 0.5, 0.9):  # each finds what the one before left
            _children.ended("keep_index", _children.killed_while_saving(share * took), **request)
        again = _children.answer("keep_index", **request)
        assert again["kept"], again["said"]
        if traits.deterministic:
            found = _answers(request)
            assert np.array_equal(found[0], expected[0])
            assert np.array_equal(found[1], expected[1])
        cached = [p for p in Path(request["cache"], "index").iterdir() if p.is_dir()]
        assert len(cached) == 1, f"these files were left beside the index: {cached}"

    def _request(
        self,
        folder: Path,
        bank: NDArray[np.float32] = BANK,
        queries: NDArray[np.float32] = QUERIES,
    ) -> dict[str, Any]:
        np.save(folder / "bank.npy", bank)
        np.save(folder / "queries.npy", queries)
        return {
            "name": self.name,
            "options": dict(self.options),
            "bank": str(folder / "bank.npy"),
            "queries": str(folder / "queries.npy"),
            "out": str(folder / "found.npz"),
            "k": 10,
        }


def _needs_index(traits: MinerTraits) -> None:
    if not traits.has_index:
        pytest.skip("it has no index")


def _answers(request: Mapping[str, Any]) -> Answers:
    with np.load(request["out"]) as found:
        return found["ids"], found["scores"]
