"""`--safe`: what it sets, what it leaves alone, and what it refuses to be told on one command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.config.test_layers import write

from ttf.config.resolve import load_run_toml, resolve
from ttf.config.toml import dump
from ttf.errors import ConfigError

KEYS = (
    "miner.isolation",
    "miner.threads",
    "miner.deterministic",
    "device.precision",
    "train.fuse",
)


def problems_of(*args: Any, **kwargs: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        resolve(*args, safe=True, **kwargs)
    return caught.value.problems


def test_without_a_file_every_remedy_is_on_and_named_as_the_origin() -> None:
    resolved = resolve(safe=True)
    config = resolved.config
    assert (config.miner.isolation, config.miner.threads) == ("process", 1)
    assert (config.miner.deterministic, config.device.precision) == (True, "fp32")
    assert {resolved.origins[key] for key in KEYS} == {"--safe"}
    assert config.train.accumulate == 1
    assert resolved.origins["train.accumulate"] == "default"
    assert resolved.notes == ()


def test_values_of_the_file_are_overridden_with_a_note_each(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "[miner]\nisolation = 'none'\nthreads = 4\ndeterministic = false\n"
        "[device]\nprecision = 'bf16'\n[probe]\nevery = 50\n",
    )
    resolved = resolve(file, safe=True)
    assert resolved.config.miner.isolation == "process"
    assert resolved.config.device.precision == "fp32"
    assert resolved.config.probe.every == 50
    assert {resolved.origins[key] for key in KEYS} == {"--safe"}
    assert "--safe: miner.isolation is 'process' instead of 'none' (run.toml:2)." in resolved.notes
    assert len(resolved.notes) == 4


def test_what_was_safe_already_stays_the_choice_of_who_wrote_it(tmp_path: Path) -> None:
    file = write(tmp_path, "[miner]\nisolation = 'process'\n[train]\naccumulate = 4\n")
    resolved = resolve(file, ["miner.threads=1"], {"--precision": "fp32"}, safe=True)
    assert resolved.origins["miner.isolation"] == "run.toml:2"
    assert resolved.origins["miner.threads"] == "--set"
    assert resolved.origins["device.precision"] == "--precision"
    assert resolved.config.train.accumulate == 4
    assert resolved.notes == ()


def test_auto_leaves_the_choice_to_safe() -> None:
    resolved = resolve(None, ["miner.threads=auto"], {"--precision": "auto"}, safe=True)
    assert (resolved.config.miner.threads, resolved.config.device.precision) == (1, "fp32")
    assert resolved.notes == ()


@pytest.mark.parametrize(
    ("batch", "accumulate", "becomes"),
    [
        (32, 16, (128, 4)),
        (32, 5, (40, 4)),
        (10, 5, (25, 2)),
        (9, 9, (27, 3)),
        (7, 7, (49, 1)),
        (32, 4, (32, 4)),
    ],
)
def test_accumulation_is_capped_and_a_step_keeps_its_samples(
    tmp_path: Path, batch: int, accumulate: int, becomes: tuple[int, int]
) -> None:
    file = write(tmp_path, f"[train]\nbatch_size = {batch}\naccumulate = {accumulate}\n")
    resolved = resolve(file, safe=True)
    train = resolved.config.train
    assert (train.batch_size, train.accumulate) == becomes
    if accumulate > 4:
        assert resolved.origins["train.batch_size"] == "--safe"
        assert f"a step still has {batch * accumulate} samples" in resolved.notes[0]


def test_where_the_batch_size_is_auto_the_step_becomes_smaller_and_says_so(tmp_path: Path) -> None:
    file = write(tmp_path, "[train]\naccumulate = 16\n")
    resolved = resolve(file, safe=True)
    assert (resolved.config.train.batch_size, resolved.config.train.accumulate) == ("auto", 4)
    (note,) = resolved.notes
    assert "train.accumulate is 4 instead of 16 (run.toml:2)" in note
    assert "'auto'" in note
    assert "--batch-size" in note


@pytest.mark.parametrize(
    ("sets", "flags", "says"),
    [
        ([], {"--isolation": "none"}, "--isolation: miner.isolation: 'none' contradicts --safe"),
        ([], {"--precision": "bf16"}, "--precision: device.precision: 'bf16' contradicts --safe"),
        ([], {"--accum": 8}, "--accum: train.accumulate: 8 contradicts --safe"),
        ([], {"accum": 8}, "accum=: train.accumulate: 8 contradicts --safe"),
        (["miner.threads=2"], {}, "--set: miner.threads: 2 contradicts --safe"),
        (["miner.deterministic=false"], {}, "--set: miner.deterministic: False contradicts --safe"),
    ],
)
def test_the_same_command_line_cannot_say_the_opposite(
    sets: list[str], flags: dict[str, Any], says: str
) -> None:
    (problem,) = problems_of(None, sets, flags)
    assert problem.startswith(says)


def test_a_batch_size_on_the_command_line_is_not_changed_behind_its_back(tmp_path: Path) -> None:
    file = write(tmp_path, "[train]\naccumulate = 16\n")
    (problem,) = problems_of(file, flags={"--batch-size": 32})
    assert problem.startswith("--batch-size: train.batch_size: 32 contradicts --safe")
    assert "16 (run.toml:2)" in problem
    assert "--batch-size 128 --accum 4" in problem
    resolved = resolve(file, flags={"--batch-size": 128, "--accum": 4}, safe=True)
    assert resolved.config.train.batch_size == 128


@pytest.mark.parametrize("value", ["'x'", "true", "0", "2.5"])
def test_what_is_no_number_is_left_to_the_schema(tmp_path: Path, value: str) -> None:
    file = write(tmp_path, f"[train]\naccumulate = {value}\nbatch_size = {value}\n")
    assert all("contradicts" not in problem for problem in problems_of(file))


def test_run_toml_says_what_was_safe_and_reads_back_so(tmp_path: Path) -> None:
    resolved = resolve(safe=True)
    write(tmp_path, dump(resolved))
    again = load_run_toml(tmp_path / "run.toml")
    assert again.origins == resolved.origins
    assert again.config == resolved.config
