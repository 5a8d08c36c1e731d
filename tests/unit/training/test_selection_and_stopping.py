"""When a run ends: by patience, by a signal; and what it keeps, refreshes and measures on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.kit.small_training import open_small

from ttf.config.evaluation_schema import EvaluateConfig
from ttf.config.resolve import resolve
from ttf.config.schema import MinerConfig
from ttf.contracts import EvalRecord
from ttf.data.order import Order
from ttf.machine.devices import choose
from ttf.process.signals import StopRequest
from ttf.training.auto_settings import decide
from ttf.training.best_weights import Selection
from ttf.training.schedule import Window, window_of


def evaluated(selection: Selection, values: list[float], first: int = 0) -> list[bool]:
    """Whether patience was used up after each value; the model's weight is the step's number."""
    said: list[bool] = []
    for step, value in enumerate(values, first):
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, step)
        metrics = {"recall@10": value, "mrr@10": 1 - value}
        selection.see(EvalRecord(step=step, epoch=0, metrics=metrics, seconds=0), model)
        said.append(selection.patience_used_up)
    return said


def test_the_best_evaluation_and_its_weights_are_kept() -> None:
    selection = Selection(config=EvaluateConfig())
    assert not any(evaluated(selection, [0.1, 0.4, 0.3, 0.4]))
    assert (selection.best_step, selection.last_step, selection.without_gain) == (1, 3, 2)
    assert selection.weights["weight"].item() == 1
    assert selection.initial["recall@10"] == 0.1
    assert selection.last["recall@10"] == 0.4
    assert selection.final == selection.best == {"recall@10": 0.4, "mrr@10": 0.6}


def test_the_configured_metric_decides() -> None:
    selection = Selection(config=EvaluateConfig(metric="mrr@10"))
    evaluated(selection, [0.5, 0.1, 0.9])
    assert selection.best_step == 1


def test_trained_weights_win_a_tie_with_untrained_ones_only() -> None:
    selection = Selection(config=EvaluateConfig(patience=2))
    said = evaluated(selection, [0.4, 0.4, 0.4])
    assert (selection.best_step, selection.without_gain, said[-1]) == (1, 2, True)
    assert selection.weights["weight"].item() == 1
    assert selection.final_step == 1


def test_patience_counts_evaluations_without_gain() -> None:
    selection = Selection(config=EvaluateConfig(patience=2))
    said = evaluated(selection, [0.1, 0.2, 0.2, 0.3, 0.1, 0.3])
    assert said == [False] * 5 + [True]


def test_without_keeping_the_best_the_last_counts_and_nothing_is_copied() -> None:
    selection = Selection(config=EvaluateConfig(keep_best=False))
    evaluated(selection, [0.4, 0.2])
    assert selection.weights == {}
    assert selection.final_step == 1
    assert selection.final["recall@10"] == 0.2


def test_kept_weights_do_not_follow_the_model() -> None:
    selection, model = Selection(config=EvaluateConfig()), torch.nn.Linear(1, 1, bias=False)
    record = EvalRecord(step=1, epoch=1, metrics={"recall@10": 0.5}, seconds=0)
    before = model.weight.item()
    selection.see(record, model)
    torch.nn.init.constant_(model.weight, 9)
    assert selection.weights["weight"].item() == before


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_restored_selection_goes_on_as_the_original(cut: int) -> None:
    values = [0.1, 0.3, 0.2, 0.3, 0.1, 0.35]
    whole = Selection(config=EvaluateConfig(patience=3))
    said = evaluated(whole, values)
    first, second = (Selection(config=EvaluateConfig(patience=3)) for _ in range(2))
    begun = evaluated(first, values[:cut])
    second.restore(json.loads(json.dumps(first.to_json())), first.weights)
    assert begun + evaluated(second, values[cut:], first=cut) == said
    assert second.to_json() == whole.to_json()
    assert torch.equal(second.weights["weight"], whole.weights["weight"])


@pytest.mark.parametrize(
    ("sets", "patience", "reason"),
    [
        (["train.epochs=8"], 3, "auto: a third of 8 evaluations, at least 3"),
        (["train.epochs=30"], 10, "auto: a third of 30 evaluations, at least 3"),
        (["train.steps=40", "evaluate.every=2"], 7, "auto: a third of 20 evaluations, at least 3"),
        (["evaluate.every='end'"], 3, "auto: a third of 1 evaluations, at least 3"),
        (["evaluate.keep_best=false"], 0, "auto: the weights of the last step are kept"),
        (["gates=[{at='epoch 1', need='mrr@10 > 0'}]"], 0, "auto: the run must reach all gates"),
        (["evaluate.patience=5"], 5, "--set"),
        (["evaluate.patience=0"], 0, "--set"),
    ],
    ids=str,
)
def test_patience_follows_from_how_often_the_run_evaluates(
    sets: list[str], patience: int, reason: str, tmp_path: Path
) -> None:
    resolved = resolve(sets=sets, flags={"tower": "linear", "batch_size": 8})
    with open_small(tmp_path) as data:
        found = decide(resolved, data, choose("cpu", {}, 1))
    assert found.config.evaluate.patience == patience
    assert found.resolved.origins["evaluate.patience"] == reason


def test_patience_that_was_not_settled_never_ends_a_run() -> None:
    assert not any(evaluated(Selection(config=EvaluateConfig()), [0.4] * 9))


# --- refresh windows -----------------------------------------------------------------------

ORDER = Order(size=100, samples_per_step=10, seed=0, fingerprint="")


def windows(total: int, **settings: Any) -> list[Window]:
    miner = MinerConfig(**settings)
    found, step = [], 0
    while step < total:
        found.append(window_of(step, total, ORDER, miner))
        step = found[-1].stop
    return found


@given(
    total=st.integers(1, 60),
    refresh=st.one_of(st.just("epoch"), st.integers(1, 25)),
    start=st.one_of(st.just("epoch"), st.integers(0, 40)),
    negatives=st.integers(0, 2),
)
@settings(max_examples=200, deadline=None)
def test_windows_tile_the_run_and_every_step_knows_its_own(
    total: int, refresh: Any, start: Any, negatives: int
) -> None:
    keys = {"refresh": refresh, "start": start, "negatives": negatives}
    first = 10 if start == "epoch" else start
    position = 0
    for window in windows(total, **keys):
        assert window.start == position
        assert window.start < window.stop <= total
        for step in range(window.start, window.stop):
            assert window_of(step, total, ORDER, MinerConfig(**keys)) == window
            assert window.mined == (negatives > 0 and step >= first)
        position = window.stop
    assert position == total


def test_epoch_refreshes_lie_at_epoch_boundaries() -> None:
    found = windows(35, refresh="epoch", start=4)
    assert [(w.start, w.stop) for w in found] == [(0, 4), (4, 10), (10, 20), (20, 30), (30, 35)]


def test_counted_refreshes_count_from_the_first_mined_step() -> None:
    found = windows(30, refresh=8, start="epoch")
    assert [(w.start, w.stop, w.mined) for w in found] == [
        (0, 10, False),
        (10, 18, True),
        (18, 26, True),
        (26, 30, True),
    ]


# --- signals -------------------------------------------------------------------------------

WORKS = """
import signal, sys, time
from ttf.process.signals import StopAsked, StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    try:
        for step in range(100000):
            time.sleep(0.005)
            stop.raise_if_asked()
    except StopAsked as asked:
        print("asked", asked, asked.signum, flush=True)
        if "save" in sys.argv:
            time.sleep(60)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
print("restored", flush=True)
"""


def start(*argv: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a suite started in the background by a shell has SIGINT ignored, and children inherit it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_in_another_thread_it_does_nothing() -> None:
    def work() -> None:
        with StopRequest() as stop:
            stop.raise_if_asked()

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
    assert signal.getsignal(signal.SIGINT) is before
