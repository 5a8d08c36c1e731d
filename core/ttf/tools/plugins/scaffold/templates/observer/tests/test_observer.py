"""The observer in the order in which a run calls it, killed and resumed, and in a real run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import ttf
from ttf import EvalRecord, StepRecord

from ttf_observer_your_name._file import HEAD
from ttf_observer_your_name.plugin import FILE, Observer


def step(number: int) -> StepRecord:
    return StepRecord(
        step=number,
        epoch=1,
        loss=float(number),
        lr=0.5,
        grad_norm=1.0,
        samples_per_s=1.0,
        seconds=1.0,
    )


def evaluation(number: int) -> EvalRecord:
    return EvalRecord(step=number, epoch=0, metrics={"recall@10": 0.25}, seconds=1.0)


def started(run_dir: Path, resumed_from: int = 0) -> Observer:
    observer = Observer()
    observer.ttf_run_started(run_dir=run_dir, config={}, resumed_from=resumed_from)
    return observer


def lines(run_dir: Path) -> list[str]:
    text = (run_dir / FILE).read_text()
    assert text.startswith(HEAD)
    return text.removeprefix(HEAD).splitlines()


def test_what_was_told_is_written_when_the_hook_returns(tmp_path: Path) -> None:
    observer = started(tmp_path)
    observer.ttf_evaluated(evaluation(0))
    observer.ttf_step(step(1))
    assert lines(tmp_path) == ["0,recall@10,0.25", "1,loss,1.0", "1,lr,0.5"]
    observer.ttf_run_finished(tmp_path, {})


@pytest.mark.parametrize("torn", ["", "4", "4,lo", "3"])
def test_after_a_kill_each_step_is_there_once(tmp_path: Path, torn: str) -> None:
    killed = started(tmp_path)
    for number in (1, 2, 3):
        killed.ttf_step(step(number))
    with (tmp_path / FILE).open("a") as file:
        file.write(torn)
    successor = started(tmp_path, resumed_from=2)
    assert [line for line in lines(tmp_path) if "loss" in line] == ["1,loss,1.0", "2,loss,2.0"]
    successor.ttf_step(step(3))
    assert lines(tmp_path)[-2:] == ["3,loss,3.0", "3,lr,0.5"]
    for observer in (killed, successor):
        observer.ttf_run_finished(tmp_path, {})


@pytest.mark.parametrize("checkpoint", [False, True])
def test_step_0_is_there_once_whether_it_is_evaluated_again_or_not(
    tmp_path: Path, checkpoint: bool
) -> None:
    killed = started(tmp_path)
    killed.ttf_evaluated(evaluation(0))
    if checkpoint:
        (tmp_path / "checkpoints" / "step-000000000").mkdir(parents=True)
    successor = started(tmp_path)
    if not checkpoint:
        successor.ttf_evaluated(evaluation(0))
    assert lines(tmp_path) == ["0,recall@10,0.25"]
    for observer in (killed, successor):
        observer.ttf_run_finished(tmp_path, {})


def test_a_run_tells_it_every_step(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bank = rng.standard_normal((50, 8), np.float32)
    np.savez(
        tmp_path / "pairs.npz",
        X_train=bank[:40] + 0.1,
        X_val=bank[40:] + 0.1,
        pos_train=np.arange(40),
        pos_val=np.arange(40, 50),
    )
    np.savez(tmp_path / "bank.npz", vectors=bank)
    config = {
        "data": {"pairs": str(tmp_path / "pairs.npz"), "bank": str(tmp_path / "bank.npz")},
        "tower": {"query": {"name": "linear"}},
        "miner": {"name": "exact", "k": 5, "negatives": 2},
        "device": {"name": "cpu", "threads": 1},
        "train": {"steps": 4, "batch_size": 10},
        "observers": ["your-name"],
    }
    run = ttf.train(config, out=tmp_path / "run")
    assert run.summary["status"] == "finished"
    losses = [line for line in lines(tmp_path / "run") if ",loss," in line]
    assert [line.partition(",")[0] for line in losses] == ["1", "2", "3", "4"]
    assert any("recall" in line for line in lines(tmp_path / "run"))
