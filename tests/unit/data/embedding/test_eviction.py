"""When a table gives memory back and takes it again: the rule alone, and a real table under it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from tests.kit.dense_table import DIM, ROWS, open_table

from ttf.data.embedding import table as table_module
from ttf.data.embedding.eviction import GROW_AGAIN_S, SHRINK_AGAIN_S, EvictionRule
from ttf.machine.memory.headroom import Headroom, headroom

MB = 1_000_000


def memory(used: float, stalled: float | None = 0.0, limit: int = 1000 * MB) -> Headroom:
    return Headroom(used=int(used * limit), limit=limit, source="a group", stalled=stalled)


def after(rule: EvictionRule, slots: int, now: Headroom, at: float) -> int:
    return rule.slots(slots, 1000, now, at)[0]


def test_it_gives_back_what_is_above_the_target_and_at_least_an_eighth() -> None:
    assert after(EvictionRule(most=400_000, fewest=64), 400_000, memory(0.95), 0) == 250_000
    assert after(EvictionRule(most=9_000_000, fewest=64), 9_000_000, memory(0.91), 0) == 7_875_000
    assert after(EvictionRule(most=1000, fewest=64), 1000, memory(0.99), 0) == 64


def test_a_process_that_waits_for_memory_counts_before_the_limit_is_near() -> None:
    rule = EvictionRule(most=80_000, fewest=64)
    assert after(rule, 80_000, memory(0.85, stalled=0.0), 0) == 80_000
    assert after(rule, 80_000, memory(0.85, stalled=0.3), 1) == 30_000


def test_between_the_marks_nothing_changes() -> None:
    rule = EvictionRule(most=80_000, fewest=64)
    for used in (0.71, 0.8, 0.89):
        assert after(rule, 40_000, memory(used), 1000) == 40_000


def test_a_hog_that_comes_and_goes_leads_to_one_change_each_way() -> None:
    # Used: the table itself (1,000 bytes a row), and the others.
    rule = EvictionRule(most=400_000, fewest=64)
    slots, sizes = 400_000, []
    for second in range(600):
        others = 550 if 100 <= second < 300 else 300
        used = (others * MB + slots * 1000) / (1000 * MB)
        slots = after(rule, slots, memory(used), second)
        sizes.append(slots)
    changes = [b - a for a, b in itertools.pairwise(sizes) if a != b]
    assert [change < 0 for change in changes] == [True, False]
    assert sizes[299] * 1000 + 550 * MB <= 0.8 * 1000 * MB
    assert sizes[-1] == 400_000


def test_it_pauses_after_a_change() -> None:
    rule = EvictionRule(most=400_000, fewest=64)
    slots = after(rule, 400_000, memory(0.95), 0)
    assert after(rule, slots, memory(0.95), SHRINK_AGAIN_S - 1) == slots
    assert after(rule, slots, memory(0.2), GROW_AGAIN_S - 1) == slots
    assert after(rule, slots, memory(0.2), GROW_AGAIN_S) == 400_000


def test_a_table_says_what_it_did_with_figures_and_keeps_every_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = memory(0.99, stalled=None)
    monkeypatch.setattr(table_module, "headroom", lambda: here)
    with open_table(tmp_path) as table:
        values = torch.randn(ROWS, DIM)
        table.update(torch.arange(ROWS), values)
        done = table.adaptive_eviction()
        assert (done.action, done.rows_after) == ("shrunk", 64)
        assert table.stats().most_hot_rows == 64
        assert "99% of 1,000 MB (a group) cannot be dropped" in done.line()
        assert "does not tell whether processes wait" in done.line()
        assert table.adaptive_eviction().action == "kept"
        assert torch.equal(table.get(torch.arange(ROWS)), values)


def group(root: Path, *, limit: int, used: int) -> None:
    folder = root / "sys/fs/cgroup/job"
    folder.mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/job\n")
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(f"anon {used}\nfile 77777777777\nshmem 5\n")


def test_headroom_counts_what_cannot_be_dropped_in_the_group_that_is_nearest_to_its_limit(
    tmp_path: Path,
) -> None:
    group(tmp_path, limit=1000, used=895)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 90 kB\n")
    found = headroom(tmp_path)
    assert (found.used, found.limit, found.stalled) == (900, 1000, None)
    assert found.source == "cgroup /job (memory.max)"
    pressure = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n"
    (tmp_path / "sys/fs/cgroup/job/memory.pressure").write_text(pressure)
    assert headroom(tmp_path).stalled == 0.125


def test_headroom_of_this_machine_is_found() -> None:
    found = headroom()
    assert 0 < found.used < found.limit
