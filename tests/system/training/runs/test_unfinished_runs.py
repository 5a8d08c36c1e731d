"""A run that was stopped or failed leaves a model: it evaluates, searches, reports and goes on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit.data_files import overwrite_and_set_back

from ttf.rundir.durable import Act, Operation, intercepted
from ttf.rundir.run_folder import FOLDERS

if TYPE_CHECKING:
    from tests.conftest import Invoke, Outcome

Sets = Mapping[str, Mapping[str, str]]
SMALL = (
    *("--tower", "linear", "--batch-size", "32", "--steps", "12"),
    *("--threads", "1", "--isolation", "none", "--in-process", "--out", "run"),
)


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train(invoke: Invoke, sets: Sets, *sets_of_keys: str) -> Outcome:
    files = sets["npz"]
    keys = [word for text in sets_of_keys for word in ("--set", text)]
    return invoke(["train", "--pairs", files["pairs"], "--bank", files["bank"], *SMALL, *keys])


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("run", name).read_text())
    return found


def evaluations() -> list[dict[str, Any]]:
    lines = map(json.loads, Path("run/metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["type"] == "eval"]


def assert_it_is_of_use(invoke: Invoke, sets: Sets, step: int) -> Sequence[str]:
    """The model in the folder is that of `step`; what `ttf eval` says of the run."""
    summary, model = document("summary.json"), document("model/config.json")
    weights = Path("run/model/model.safetensors").read_bytes()
    assert summary["kept_step"] == model["step"] == step
    assert summary["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    evaluated = invoke(["eval", "run", "--json"])
    assert evaluated.code == 0, evaluated.err
    found = evaluated.json()
    if summary["metrics"]:
        assert found["metrics"] == summary["metrics"]
    searched = invoke(["search", "run", "--queries", sets["npz"]["pairs"], "-k", "2"])
    assert searched.code == 0, searched.err
    assert searched.out.count("\n") == 1 + 2 * 60
    reported = invoke(["report", "run"])
    assert reported.code == 0, reported.err
    notes: Sequence[str] = found["notes"]
    return notes


def test_a_run_that_missed_a_gate_has_the_model_of_its_best_evaluation(
    small_sets: Sets, invoke: Invoke
) -> None:
    gate = '[{at = "step 8", need = "recall@1 >= 1.0"}]'
    done = train(invoke, small_sets, "evaluate.every=2", f"gates={gate}")
    assert done.code == 7
    assert "To evaluate the best model so far: ttf eval run. " in done.err
    best = max(evaluations()[1:], key=lambda line: line["metrics"]["recall@10"])
    [note] = assert_it_is_of_use(invoke, small_sets, best["step"])
    assert f"its model is that of step {best['step']}, the best one so far" in note
    assert invoke(["mine", "run", "-k", "3", "--out", "table.npz"]).code == 0


def test_a_run_whose_disk_failed_has_the_model_of_its_best_evaluation(
    small_sets: Sets, invoke: Invoke
) -> None:
    def broken(operation: Operation, act: Act) -> int:
        if operation.name == "checkpoint.write":
            raise OSError(28, "No space left on device")
        return act(memoryview(operation.data))

    with intercepted(broken):
        keys = ("evaluate.every=2", "checkpoint.every_steps=7", "checkpoint.retry_s=0")
        done = train(invoke, small_sets, *keys)
    assert done.code == 8, done.err
    best = max(evaluations()[1:], key=lambda line: line["metrics"]["recall@10"])
    assert document("summary.json")["status"] == "failed"
    assert_it_is_of_use(invoke, small_sets, best["step"])


def test_a_stop_ends_the_wait_for_a_disk_that_takes_no_checkpoint(
    small_sets: Sets, invoke: Invoke
) -> None:
    asked = False

    def broken(operation: Operation, act: Act) -> int:
        nonlocal asked
        if operation.name == "checkpoint.write":
            if not asked:
                os.kill(os.getpid(), signal.SIGTERM)  # a second one would end this process
            asked = True
            raise OSError(28, "No space left on device")
        return act(memoryview(operation.data))

    with intercepted(broken):
        done = train(invoke, small_sets, "miner.negatives=0", "checkpoint.retry_s='30d'")
    assert done.code == 8, done.err
    assert "No checkpoint could be written since" in done.err


def test_a_run_whose_folders_were_empty_and_are_gone_starts_again(
    small_sets: Sets, invoke: Invoke
) -> None:
    assert train(invoke, small_sets, "miner.negatives=0").code == 0
    Path("run/summary.json").unlink()
    for name in FOLDERS:
        shutil.rmtree(Path("run", name))
    done = invoke(["resume", "run", "--in-process"])
    assert done.code == 0, done.err
    assert "There was no checkpoint yet" in done.err


def test_a_run_that_was_stopped_before_it_evaluated_has_the_weights_of_its_checkpoint(
    small_sets: Sets, invoke: Invoke
) -> None:
    mined = 0

    def stopped(operation: Operation, act: Act) -> int:
        nonlocal mined
        mined += operation.name == "candidates.rename"
        if operation.name == "candidates.rename" and mined == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return act(memoryview(operation.data))

    keys = ("miner.refresh=4", "evaluate.every='end'")
    with intercepted(stopped):
        done = train(invoke, small_sets, *keys)
    assert done.code == 143, done.err
    step = document("summary.json")["steps"]
    assert 4 <= step <= 5
    assert document("summary.json")["metrics"] == {}
    [note] = assert_it_is_of_use(invoke, small_sets, step)
    assert "not evaluated yet" in note
    resumed = invoke(["resume", "run", "--in-process", "--json"]).json()
    Path("run").rename("resumed")
    assert train(invoke, small_sets, *keys).code == 0
    assert document("summary.json")["weights_sha256"] == resumed["weights_sha256"]
    assert "notes" in resumed and invoke(["eval", "run", "--json"]).json()["notes"] == []


def test_a_file_without_checksums_that_was_only_touched_makes_the_resumed_run_not_exact(
    small_sets: Sets, invoke: Invoke
) -> None:
    pairs, bank = Path("pairs.npz"), Path("bank.npy")
    with np.load(small_sets["npz"]["pairs"]) as arrays:
        rows = dict(arrays)
    np.savez(pairs, **rows)
    with np.load(small_sets["npz"]["bank"]) as arrays:
        np.save(bank, arrays["vectors"])
    own: Sets = {"npz": {"pairs": str(pairs), "bank": str(bank)}}

    def stopped(operation: Operation, act: Act) -> int:
        if operation.name == "candidates.rename" and Path("run/checkpoints").is_dir():
            os.kill(os.getpid(), signal.SIGTERM)
        return act(memoryview(operation.data))

    with intercepted(stopped):
        assert train(invoke, own, "miner.refresh=4", "evaluate.every='end'").code == 143
    shutil.copytree("run", "stopped")
    original = pairs.read_bytes()
    rows["X_train"][7] += 1
    np.savez(pairs, **rows)  # of the same size, with new checksums
    assert len(original) == pairs.stat().st_size
    refused = invoke(["resume", "run", "--in-process"])
    assert refused.code == 3, refused.err

    pairs.write_bytes(original)
    compared = invoke(["resume", "run", "--in-process", "--json"])
    assert "reads the whole file once" in compared.err
    assert (compared.json()["exact"], compared.json()["deviations"]) == (True, [])

    shutil.rmtree("run")
    shutil.copytree("stopped", "run")
    os.utime(bank)
    Path("run/metrics.jsonl").unlink()
    unknown = invoke(["resume", "run", "--in-process", "--json"])
    [deviation] = unknown.json()["deviations"]
    assert f"{bank} was written to or replaced" in deviation.replace(
        f"{bank.parent.resolve()}/", ""
    )
    assert unknown.json()["exact"] is False
    assert "run/metrics.jsonl lacks" in unknown.err and "metrics.jsonl lacks" not in compared.err
    assert f"{bank} was written to since the run began. ttf reads" not in unknown.err
    assert unknown.json()["weights_sha256"] == compared.json()["weights_sha256"]


def test_a_run_without_gain_ends_early_by_default_and_says_so(
    small_sets: Sets, invoke: Invoke
) -> None:
    done = train(invoke, small_sets, "evaluate.every=1", "train.lr=1e-12", "miner.negatives=0")
    assert done.code == 0, done.err
    summary = document("summary.json")
    assert summary["steps"] == 4
    [note] = summary["notes"]
    assert (
        "Training ended early, at step 4 of 12: recall@10 did not improve in 4 evaluations" in note
    )
    assert "--set evaluate.patience=0" in note and note in done.err


def test_a_value_that_was_changed_by_hand_in_its_run_toml_makes_a_run_inexact(
    small_sets: Sets, invoke: Invoke
) -> None:
    def stopped(operation: Operation, act: Act) -> int:
        if operation.name == "candidates.rename":
            os.kill(os.getpid(), signal.SIGTERM)
        return act(memoryview(operation.data))

    with intercepted(stopped):
        assert train(invoke, small_sets, "miner.refresh=4", "evaluate.every='end'").code == 143
    file = Path("run/run.toml")
    file.write_text(file.read_text().replace("lr = 0.001 ", "lr = 0.002 "))
    done = invoke(["resume", "run", "--in-process"])
    assert done.code == 0, done.err
    assert "train.lr is 0.002 in run.toml, which was changed by hand; it was 0.001" in done.err
    summary = document("summary.json")
    assert not summary["exact"] and len(summary["deviations"]) == 1


def test_a_file_without_checksums_that_was_written_to_in_mid_run_makes_it_not_exact(
    small_sets: Sets, invoke: Invoke
) -> None:
    bank = Path("bank.npy")
    with np.load(small_sets["npz"]["bank"]) as arrays:
        np.save(bank, arrays["vectors"])
    own: Sets = {"npz": {**small_sets["npz"], "bank": str(bank)}}

    def overwritten(operation: Operation, act: Act) -> int:
        if operation.name == "checkpoint.write" and not Path("run/model/config.json").exists():
            overwrite_and_set_back(bank, bank.stat().st_size // 2)
        return act(memoryview(operation.data))

    with intercepted(overwritten):
        done = train(invoke, own, "miner.negatives=0", "checkpoint.every_steps=5")
    assert done.code == 0 and "The run is not exact: " in done.err
    [deviation] = document("summary.json")["deviations"]
    assert deviation.endswith("so ttf cannot compare its content")
    assert document("summary.json")["exact"] is False


def test_nothing_of_a_round_that_mined_in_changed_data_is_gone_on_with(
    small_sets: Sets, invoke: Invoke
) -> None:
    keys = ("miner.name=exact", "miner.refresh=5", "miner.negatives=2", "checkpoint.every_steps=1")
    assert train(invoke, small_sets, *keys).code == 0
    Path("run").rename("whole")
    bank = Path("bank.npz")
    original = Path(small_sets["npz"]["bank"]).read_bytes()
    bank.write_bytes(original)
    own: Sets = {"npz": {**small_sets["npz"], "bank": str(bank)}}
    rounds: list[str] = []

    def overwritten(operation: Operation, act: Act) -> int:
        found = [name for name in operation.path.parts if name.startswith("round-")]
        if found and found[0] not in rounds:
            rounds.append(found[0])
            if len(rounds) == 2:
                overwrite_and_set_back(bank, len(original) // 2)
        return act(memoryview(operation.data))

    with intercepted(overwritten):
        done = train(invoke, own, *keys)
    assert done.code == 3 and "its time of writing was set back" in done.err
    second = rounds[1].removeprefix("round-")
    assert not list(Path("run/candidates").glob(f"*{second}*"))
    bank.write_bytes(original)
    resumed = invoke(["resume", "run", "--in-process", "--json"]).json()
    whole = json.loads(Path("whole/summary.json").read_text())
    assert resumed["weights_sha256"] == whole["weights_sha256"]
