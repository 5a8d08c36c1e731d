"""A run is cut until it fits into memory.limit, what changes no number first; or it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.kit.small_training import PAIRS, open_small

from ttf.config.resolve import resolve
from ttf.data.dataset import Dataset
from ttf.errors import ConfigError
from ttf.machine.devices import choose
from ttf.machine.memory.limits import Limit
from ttf.training.auto_settings import decide
from ttf.training.memory.start import TARGET, Fitted, decide_within, shares
from ttf.training.plan import plan_of

MIB = 1 << 20
FLAGS: dict[str, Any] = {"tower": "linear", "batch_size": 8, "miner.negatives": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    queries = np.random.default_rng(3).standard_normal((PAIRS, 40, 256)).astype(np.float32)
    with open_small(tmp_path_factory.mktemp("start"), queries) as opened:
        yield opened


def within(data: Dataset, limit: int, flags: dict[str, Any], *, asked: str = "100%") -> Fitted:
    resolved = resolve(flags={**FLAGS, **flags, "memory.limit": asked})
    return decide_within(resolved, data, choose("cpu", {}, 1), Limit(limit, "cgroup /job"))


def needs(data: Dataset, flags: dict[str, Any]) -> int:
    decided = decide(resolve(flags={**FLAGS, **flags}), data, choose("cpu", {}, 1))
    return plan_of(decided, data, choose("cpu", {}, 1), Limit(1 << 40, "")).peak_anon_bytes


def test_a_run_that_fits_is_not_cut(data: Dataset) -> None:
    fitted = within(data, 4 << 30, {})
    assert not fitted.cuts
    assert not fitted.decided.deviations
    assert fitted.decided.config.train.batch_size == 8
    assert fitted.decided.config.memory.budget == 1 << 30
    assert fitted.decided.resolved.origins["memory.budget"].endswith("a quarter of memory.limit")


def test_a_wide_step_is_cut_where_nothing_else_helps_and_that_is_said(data: Dataset) -> None:
    large = {"tower": "gru", "tower.query.hidden": 256, "tower.query.dropout": 0.0}
    whole = {**large, "batch_size": 32, "memory_bank": 0, "calibrate.enabled": False}
    peak = needs(data, whole)
    fitted = within(data, int(peak / TARGET) - 20 * MIB, whole)
    train = fitted.decided.config.train
    assert train.batch_size * train.accumulate == 32
    assert train.accumulate > 1
    assert fitted.decided.plan.samples == 32
    assert [d for d in fitted.decided.deviations if "smaller micro-batches: rounding differs" in d]
    assert any("train.batch_size 32 -> " in note for note in fitted.decided.notes)
    assert fitted.plan.peak_anon_bytes < peak


def test_rows_read_ahead_go_first_and_change_no_number(data: Dataset) -> None:
    flags = {"memory.read_ahead": 1024, "batch_size": 40, "calibrate.enabled": False}
    peak = needs(data, flags)
    fitted = within(data, peak // 2, flags)
    memory = fitted.decided.config.memory
    assert isinstance(memory.read_ahead, int)
    assert memory.read_ahead < 1024
    assert fitted.decided.config.train.batch_size == 40
    assert not fitted.decided.deviations
    assert [cut for cut in fitted.cuts if cut.startswith("memory.read_ahead 1,024 -> ")]


def test_an_automatic_limit_cuts_nothing(data: Dataset) -> None:
    fitted = within(data, 10 * MIB, {}, asked="auto")
    assert not fitted.plan.fits
    assert not fitted.cuts


def test_what_cannot_fit_is_refused_with_the_smallest_limit_that_would(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="does not fit into 10 MB") as caught:
        within(data, 10 * 10**6, {})
    found = re.search(r"would fit is (\d+)MiB", str(caught.value))
    assert found is not None
    least = int(found[1]) * MIB
    assert within(data, least, {}).plan.peak_anon_bytes <= TARGET * least
    with pytest.raises(ConfigError):
        within(data, least - 2 * MIB, {})


def test_the_shares_name_the_limit_and_add_up(data: Dataset) -> None:
    text = shares(within(data, 4 << 30, {}).plan)
    assert "4.3 GB (cgroup /job)" in text
    assert "python and torch 215 MB" in text


def test_a_budget_as_text_is_settled_in_bytes(data: Dataset) -> None:
    flags = {"memory.budget": "48MiB", "miner.negatives": 4, "miner": "exact"}
    decided = decide(resolve(flags={**FLAGS, **flags}), data, choose("cpu", {}, 1))
    assert decided.config.memory.budget == 48 * MIB
    assert decided.resolved.origins["memory.budget"] == "memory.budget="
