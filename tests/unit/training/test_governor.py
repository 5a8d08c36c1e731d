"""The governor obeys: sets levers, writes what it did, and says what it cannot see."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from ttf.data.embedding.tower_rows import TableRows
from ttf.machine.memory.pressure import StallMeter
from ttf.machine.memory.watch import Gauge
from ttf.training.memory.governor import Governed, Governor
from ttf.training.memory.levers import Lever, of_tables
from ttf.training.tables import Tables

MB = 10**6
STEPS_OF_TIME = 10.0


class Cache:
    def __init__(self, size: int) -> None:
        self.size = size

    def lever(self, name: str, *, between_steps: bool = False) -> Lever:
        return Lever(
            name=name,
            now=lambda: self.size,
            least=0,
            most=self.size,
            set=lambda size: setattr(self, "size", size),
            between_steps=between_steps,
        )


class Watched:
    """A governor over caches, whose clock moves ten seconds a look."""

    def __init__(self, root: Path, *levers: Lever) -> None:
        self.held = 0
        self.lines: list[Mapping[str, Any]] = []
        self.said: list[str] = []
        self.now = 0.0
        # Nobody has this process id under that root: no limit but the one that is asked for.
        (root / "proc").mkdir()
        (root / "proc/meminfo").write_text("MemTotal: 99999999 kB\nMemAvailable: 99999999 kB\n")
        self.governor = Governor(
            setting=1000 * MB,
            levers=levers,
            held=lambda: self.held,
            write=self.lines.append,
            say=self.said.append,
            counts=Governed(),
            gauge=Gauge(2**22 + 1, root=root),
            stalls=StallMeter(root),
            clock=self.clock,
        )

    def clock(self) -> float:
        self.now += STEPS_OF_TIME
        return self.now

    def at(self, held: int, step: int) -> None:
        self.held = held
        self.governor.look()
        self.governor.settle(step)


@pytest.fixture(autouse=True)
def _no_limits_of_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Gauge, "_limited_processes", lambda _: iter(()))
    yield


def test_a_decision_and_its_effect_are_lines_with_numbers(tmp_path: Path) -> None:
    cache = Cache(400 * MB)
    run = Watched(tmp_path, cache.lever("rows"))
    run.at(900 * MB, 7)
    assert cache.size == 250 * MB
    run.at(750 * MB, 8)
    shrink, effect = run.lines
    assert shrink["what"] == "shrink"
    assert shrink["levers"] == [{"name": "rows", "before": 400 * MB, "after": 250 * MB}]
    assert (shrink["held"], shrink["limit"], shrink["source"]) == (
        900 * MB, 1000 * MB, "memory.limit",
    )  # fmt: skip
    assert (effect["what"], effect["held_before"], effect["held"]) == (
        "effect", 900 * MB, 750 * MB,
    )  # fmt: skip
    assert run.governor.counts.shrunk == 1
    assert run.governor.counts.freed_bytes == 150 * MB
    assert "rows 400 MB -> 250 MB" in run.said[0]


def test_it_grows_back_when_there_is_room_again(tmp_path: Path) -> None:
    cache = Cache(400 * MB)
    run = Watched(tmp_path, cache.lever("rows"))
    run.at(900 * MB, 1)
    for step in range(2, 12):
        run.at(220 * MB + cache.size, step)
    assert cache.size == 400 * MB
    assert {line["what"] for line in run.lines} == {"shrink", "grow", "effect"}


def test_a_lever_for_step_boundaries_waits_for_one(tmp_path: Path) -> None:
    cache = Cache(400 * MB)
    run = Watched(tmp_path, cache.lever("table", between_steps=True))
    run.held = 900 * MB
    run.governor.look()
    assert cache.size == 400 * MB
    run.governor.settle(3)
    assert cache.size == 250 * MB


def test_lines_wait_for_the_main_thread(tmp_path: Path) -> None:
    run = Watched(tmp_path, Cache(400 * MB).lever("rows"))
    run.held = 900 * MB
    run.governor.look()
    assert not run.lines
    run.governor.settle(4)
    assert len(run.lines) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="glibc keeps freed pages; others do not")
def test_pages_that_steps_have_freed_are_given_back_from_time_to_time(tmp_path: Path) -> None:
    run = Watched(tmp_path)
    blocks = [bytearray(64_000) for _ in range(1000)]  # from the heap, not mapped one by one
    kept = blocks[::10]  # between holes, so that the heap does not become shorter
    del blocks
    before = psutil.Process().memory_info().rss
    for step in range(3):
        run.governor.settle(step)
    assert before - psutil.Process().memory_info().rss > 30 * MB
    assert len(kept) == 100


def test_what_it_cannot_see_is_said_once_at_the_beginning(tmp_path: Path) -> None:
    run = Watched(tmp_path, Cache(1).lever("rows"))
    with run.governor:
        pass
    assert len([text for text in run.said if "PSI" in text]) == 1


def test_its_thread_ends_with_it(tmp_path: Path) -> None:
    run = Watched(tmp_path, Cache(1).lever("rows"))
    with run.governor as governor:
        assert governor._thread.is_alive()
    assert not governor._thread.is_alive()


def test_hot_rows_of_a_table_give_way_and_no_row_changes(tmp_path: Path) -> None:
    rows, dim = 200_000, 16
    query = SimpleNamespace(table=TableRows(name="t", optimizer="sgd", lr=0.1), rows=None)
    model: Any = SimpleNamespace(doc=SimpleNamespace(), query=query)
    tables = Tables(model, rows, dim, 16 * MB)
    tables.open(tmp_path, seed=1, versions={})
    table = tables._open["t"].table
    ids = np.arange(0, rows, 7)
    table.update(ids, torch.full((len(ids), dim), 2.5))
    before = table.get(np.arange(rows))
    lever = of_tables(tables)
    (tmp_path / "system").mkdir()
    run = Watched(tmp_path / "system", lever)
    hot = table.stats().most_hot_rows
    run.at(999 * MB, 1)
    assert lever.now() == lever.least < lever.most
    assert table.stats().hot_rows < hot
    assert torch.equal(table.get(np.arange(rows)), before)
    tables.close(whole=True)
