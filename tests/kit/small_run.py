"""A run reduced to what it writes: steps with metrics, mined tables, checkpoints beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ttf.errors import StorageError
from ttf.mining.miner_results import CandidateTable
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.removing import remove_leftovers
from ttf.rundir.verified_folders import prune_tables
from ttf.training import checkpoint
from ttf.training.checkpoint import Snapshot
from ttf.training.checkpoint_writer import Saver

WINDOW = 2
"""Steps that share a table."""
Tell = Callable[..., None]


def table_key(step: int) -> str:
    """Of the window a step lies in; a step that begins one has no table yet."""
    return "" if step % WINDOW == 0 else f"table{step // WINDOW}"


def table(key: str) -> CandidateTable:
    rng = np.random.default_rng(len(key))
    return CandidateTable(
        rows=np.arange(40),
        ids=rng.integers(0, 50, (40, 4)),
        scores=-np.sort(-rng.standard_normal((40, 4)).astype(np.float32), axis=1),
        positive_scores=np.zeros(40, np.float32),
        key=key,
        miner="exact",
    )


def snapshot(step: int) -> Snapshot:
    weights = torch.full((20, 20), float(step))
    return Snapshot(
        step=step,
        model={"w": weights, "scale": torch.tensor(float(step))},
        optimizer={"0.exp_avg": weights + 0.5},
        bank={"ids": torch.arange(10) + step},
        best={"w": weights},
        progress={"table": table_key(step), "value": step},
    )


def begin(root: Path) -> Path:
    """An empty run folder."""
    for name in ("checkpoints", "candidates"):
        (root / name).mkdir(parents=True)
    (root / "run.toml").touch()
    return root


def write_run(
    root: Path,
    *,
    tell: Tell,
    start: int = 0,
    stop: int = 4,
    retry_s: float = 60.0,
    pause_s: float = 0.0,
    flight: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Steps start+1..stop, each with a checkpoint, as the trainer makes them. `ready` is called
    when the files are open and the first table is mined."""
    log = MetricsLog(
        root / "metrics.jsonl",
        start if start else None,
        retry_s=retry_s,
        say=lambda text: tell(said=text),
    )
    saver = Saver(
        root / "checkpoints",
        keep=2,
        retry_s=retry_s,
        flight=FlightRecorder(Path(flight) if flight else None),
        on_saved=lambda step, *_: tell(saved=step),
        say=lambda text: tell(said=text),
        sync_first=log.make_durable,
    )
    try:
        mine_if_due(root, start, tell)
        ready()
        for step in range(start, stop):
            mined = mine_if_due(root, step, tell)
            log.write({"type": "step", "step": step + 1})
            if mined:
                saver.save(snapshot(step + 1))
            time.sleep(pause_s)
            while saver.busy:
                time.sleep(0.001)
            saver.raise_if_failed()
            try:
                prune_tables(root, {saver.table, table_key(step + 1)})
            except StorageError as error:
                tell(said=str(error))
    finally:
        saver.close()
        log.close()


def mine_if_due(root: Path, step: int, tell: Tell) -> bool:
    """The table of the step after `step`; False where the disk did not take it."""
    key = table_key(step + 1)
    if not key or (root / "candidates" / key / "manifest.json").is_file():
        return True
    try:
        table(key).save(root / "candidates")
    except StorageError as error:
        tell(said=f"table: {error}")
        return False
    return True


def recovered(root: Path, say: Callable[[str], None] = lambda _: None) -> Snapshot:
    """What a process that takes the folder over continues with. Raises NoCheckpoint."""
    for folder in (root, root / "checkpoints", root / "candidates"):
        remove_leftovers(folder, root)
    return checkpoint.load_newest(root / "checkpoints", say)


def assert_whole(root: Path, found: Snapshot) -> None:
    """It is the state of its step to the last number, with its table and all metrics before."""
    assert_state(found)
    if found.table:
        CandidateTable.load(root / "candidates" / found.table)
    MetricsLog(root / "metrics.jsonl", found.step).close()
    assert steps_logged(root) == list(range(1, found.step + 1))


def assert_state(found: Snapshot) -> None:
    wanted = snapshot(found.step)
    assert found.progress == wanted.progress
    for name, tensors in wanted.groups().items():
        own = found.groups()[name]
        assert own.keys() == tensors.keys()
        assert all(torch.equal(own[key], value) for key, value in tensors.items()), name


def steps_logged(root: Path) -> list[Any]:
    lines = (root / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]
