"""An embedding table after kills, failing disks and power cuts: always the rows of a whole sync."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.kit.crash_states import crash_states, tree_of
from tests.kit.dense_table import ROUNDS, ROWS, open_table, states, write_table
from tests.kit.recorded_disk import recorded

CHAOS = os.environ.get("TTF_CHAOS") == "1"
EVERY = 1 if CHAOS else 29
STATES = 20_000 if CHAOS else 60
EVERYTHING = torch.arange(ROWS)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ttf-table-", dir=shared) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def forker() -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "tests.kit.table_forker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def ended(forker: subprocess.Popen[str], root: Path, failpoint: str) -> tuple[int, int]:
    """How many rounds were told to be durable (-1: not even the table), and the exit status."""
    assert forker.stdin is not None
    assert forker.stdout is not None
    forker.stdin.write(json.dumps([str(root), failpoint]) + "\n")
    forker.stdin.flush()
    answer = json.loads(forker.stdout.readline())
    return max(answer["rounds"], default=-1), answer["status"]


def holds(root: Path, wanted: list[torch.Tensor]) -> int:
    """The round whose values the table has, bit for bit."""
    with open_table(root) as table:
        number = table.version
        assert torch.equal(table.get(EVERYTHING), wanted[number]), f"round {number}"
    return number


@pytest.mark.parametrize("fault", ["kill", "enospc", "eio", "short"])
def test_a_fault_at_any_operation_leaves_the_last_sync_or_a_whole_later_one(
    fault: str, forker: subprocess.Popen[str], ram: Path
) -> None:
    wanted = states()
    with recorded() as operations:
        write_table(ram / "calm", lambda _: None)
    assert {operation.area for operation in operations} == {"table"}
    for number in range(1 + len(fault) % EVERY, len(operations) + 1, EVERY):
        operation = operations[number - 1]
        if fault == "short" and operation.verb != "write":
            continue
        root = ram / f"{number}"
        told, status = ended(forker, root, f"table.*:{number}:{fault}")
        where = f"{fault} at operation {number}, {operation.name} {operation.path.name}"
        assert status == {"kill": -9, "short": 0}.get(fault, status), where
        assert max(told, 0) <= holds(root, wanted) <= max(told, 0) + 1, where
        write_table(root, lambda _: None)  # and it can go on
        assert holds(root, wanted) == ROUNDS, where
        shutil.rmtree(root)


def test_whatever_a_power_cut_leaves_is_a_whole_version(ram: Path) -> None:
    wanted = states()
    root = ram / "table"
    with open_table(root):
        pass
    before = tree_of(root)
    told = [(0, 0)]
    with recorded() as operations:
        write_table(root, lambda number: told.append((len(operations), number)))
    checked = 0
    for state in crash_states(root, before, operations, seed=1, at_most=STATES):
        state.materialise(ram / "crashed")
        promised = max(number for at, number in told if at <= state.done)
        assert promised <= holds(ram / "crashed", wanted) <= promised + 1, state.label
        shutil.rmtree(ram / "crashed")
        checked += 1
    assert checked >= min(STATES, 50)
