"""Mining rounds that take query vectors from the training, or that happen only when they pay: a run
that died goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.widely import wide

from ttf.rundir.durable import Act, Operation, intercepted

if TYPE_CHECKING:
    from tests.conftest import Invoke, Outcome

Sets = Mapping[str, Mapping[str, str]]
EPOCH = 12  # steps
RUN = (
    *("--tower", "gru", "--batch-size", "32", "--epochs", "5", "--threads", "1"),
    *("--isolation", "none", "--in-process", "--json"),
    *("--set", "miner.negatives=2", "--set", "calibrate.enabled=false"),
    *("--set", "evaluate.every='end'", "--set", "checkpoint.every_steps=5"),
)
REUSE = "miner.queries='reuse'"
# So low a learning rate changes no negative: then a table serves 1, 2 and 4 epochs, or the rest.
WHEN_IT_PAYS = ("miner.refresh='auto'", "train.lr=1e-12")


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train(invoke: Invoke, sets: Sets, out: str, *keys: str) -> Outcome:
    files = sets["npz"]
    more = [word for text in keys for word in ("--set", text)]
    words = ["train", "--pairs", files["pairs"], "--bank", files["bank"], "--out", out, *RUN, *more]
    return invoke(words)


def rounds(run: str) -> list[dict[str, Any]]:
    lines = map(json.loads, Path(run, "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["type"] == "mining"]


def stopped_at(invoke: Invoke, sets: Sets, operation: str, number: int, *keys: str) -> None:
    """A run, `cut`, that is stopped at this operation."""
    met = 0

    def stop(found: Operation, act: Act) -> int:
        nonlocal met
        met += found.name == operation
        if found.name == operation and met == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return act(memoryview(found.data))

    with intercepted(stop):
        done = train(invoke, sets, "cut", *keys, "checkpoint.keep=4")
    assert done.code == 143, done.err


@pytest.mark.parametrize(
    ("keys", "operation", "number"),
    [
        pytest.param((REUSE,), "queries.write", 27, marks=wide),
        ((REUSE, "miner.refresh=5"), "queries.write", 21),
        pytest.param((REUSE, *WHEN_IT_PAYS), "candidates.rename", 3, marks=wide),
    ],
    ids=["epochs", "short windows", "when it pays"],
)
def test_a_run_that_went_back_ends_with_the_weights_of_one_that_did_not(
    keys: tuple[str, ...], operation: str, number: int, small_sets: Sets, invoke: Invoke
) -> None:
    whole = train(invoke, small_sets, "whole", *keys).json()
    stopped_at(invoke, small_sets, operation, number, *keys)
    # As after a death: the next process begins long before the place where this one ended.
    for newest in sorted(Path("cut/checkpoints").glob("step-*"))[-2:]:
        shutil.rmtree(newest)
    resumed = invoke(["resume", "cut", "--in-process", "--json"]).json()
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["exact"] and whole["exact"] and resumed["deviations"] == []
    steps = [line["step"] for line in rounds("cut")]
    assert steps == [line["step"] for line in rounds("whole")]


def test_all_but_the_first_round_take_the_vectors_of_the_last_epoch(
    small_sets: Sets, invoke: Invoke
) -> None:
    assert train(invoke, small_sets, "run", REUSE).code == 0
    first, *later = rounds("run")
    assert first["from_training"] == 0 and len(later) == 4
    # An epoch leaves out 16 of 400 rows, others each time.
    assert all(384 - 32 <= line["from_training"] <= 384 for line in later)
    assert not Path("run/candidates/queries-4.bin").exists()  # no round comes after it


def test_lost_vectors_are_encoded_and_the_run_says_that_it_is_not_exact(
    small_sets: Sets, invoke: Invoke
) -> None:
    stopped_at(invoke, small_sets, "queries.write", 22, REUSE)
    kept = Path("cut/candidates/queries-1.bin")
    content = bytearray(kept.read_bytes())
    content[100] ^= 1
    kept.write_bytes(content)
    done = invoke(["resume", "cut", "--in-process", "--json"])
    assert done.code == 0, done.err
    [deviation] = done.json()["deviations"]
    assert "the query vectors of 1 of the 12 steps before step 24 were lost" in deviation
    assert done.json()["exact"] is False


@wide
def test_a_table_serves_longer_while_its_negatives_stay_hard(
    small_sets: Sets, invoke: Invoke
) -> None:
    done = train(invoke, small_sets, "run", *WHEN_IT_PAYS)
    assert [line["step"] for line in rounds("run")] == [0, EPOCH, 3 * EPOCH]
    assert [line["serves_epochs"] for line in rounds("run")] == [1, 2, 4]
    assert "of step 12 are used for 2 epochs, because the negatives of the table before" in done.err
    fast = train(invoke, small_sets, "fast", "miner.refresh='auto'", "train.lr=0.1")
    assert fast.code == 0, fast.err
    assert [line["step"] for line in rounds("fast")] == [EPOCH * epoch for epoch in range(5)]


def test_vectors_of_earlier_steps_are_refused_for_documents_that_change(
    small_sets: Sets, invoke: Invoke
) -> None:
    done = train(invoke, small_sets, "run", REUSE, "tower.doc.name='linear'")
    assert done.code == 2
    assert 'miner.queries = "reuse" needs a document tower without trainable weights' in done.err
