"""From a class and a configuration to the edit that avoids it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, FileChange, ProcessName
from ttf.incidents.remedies import ADVICE, SMALLEST_BUDGET, remedies_for

SETTINGS: dict[str, Any] = {
    "miner.name": "faiss",
    "miner.isolation": "process",
    "miner.fallback": ("exact",),
    "miner.threads": 2,
    "train.batch_size": 64,
    "train.accumulate": 2,
    "device.name": "cpu",
    "device.threads": 2,
    "memory.budget": 1 << 30,
    "tower.query.name": "gru",
    "tower.query.dropout": 0.0,
    "tower.doc.name": "identity",
}
NATIVE = ("segfault", "abort", "heap-corruption", "cxx-exception", "bus-error", "hang")


def edits(
    name: str, process: ProcessName = "trainer", phase: str = "forward", **changed: Any
) -> list[dict[str, Any]]:
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    found = remedies_for(name, settings, process=process, phase=phase)
    return [dict(remedy.set) for remedy in found]


def test_two_runtimes_in_one_process_are_parted() -> None:
    assert edits("omp-duplicate", miner__isolation="none") == [{"miner.isolation": "process"}]
    assert edits("omp-duplicate", process="miner") == [{"miner.name": "exact"}]
    assert edits("omp-duplicate") == [], "another miner does not part what the trainer loads itself"
    assert edits("omp-duplicate", process="miner", miner__name="exact", miner__fallback=()) == []


@pytest.mark.parametrize("name", ["oom-kill", "memory-limit", "alloc-failure"])
def test_memory_is_saved_by_the_same_step_in_smaller_parts(name: str) -> None:
    assert edits(name) == [{"train.batch_size": 32, "train.accumulate": 4}]
    budget = {"memory.budget": 1 << 28}
    assert edits(name, phase="mining") == [
        budget,
        {"train.batch_size": 32, "train.accumulate": 4},
    ]
    assert edits(name, phase="evaluate")[0] == budget
    assert edits(name, process="miner", phase="") == [budget]
    assert edits(name, process="miner", memory__budget=SMALLEST_BUDGET) == []
    assert edits(name, train__batch_size=1) == [], "nothing left to cut"


@pytest.mark.parametrize(
    ("batch", "parts", "expected"), [(33, 1, (11, 3)), (7, 2, (1, 14)), (2, 1, (1, 2))]
)
def test_an_odd_batch_keeps_its_step_too(batch: int, parts: int, expected: tuple[int, int]) -> None:
    (edit,) = edits("oom-kill", train__batch_size=batch, train__accumulate=parts)
    assert (edit["train.batch_size"], edit["train.accumulate"]) == expected
    assert expected[0] * expected[1] == batch * parts


def test_halving_ends_somewhere() -> None:
    settings = dict(SETTINGS)
    for _ in range(100):
        found = remedies_for("oom-kill", settings, phase="mining")
        if not found:
            break
        settings |= found[0].set
    assert settings["train.batch_size"] == 1
    assert settings["train.accumulate"] == 128
    assert settings["memory.budget"] == SMALLEST_BUDGET


def deviation(name: str, **changed: Any) -> str:
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changed.items()}
    return remedies_for(name, settings)[0].deviation


def test_what_it_does_to_the_numbers_is_said() -> None:
    assert deviation("segfault", miner__isolation="none") == ""
    assert deviation("oom-kill").endswith("differ by rounding only")
    assert "dropout" not in deviation("oom-kill")
    assert "dropout drops other values" in deviation("oom-kill", tower__query__dropout=0.2)
    capped = deviation("oom-kill", device__name="gpu", device__gpu__max_accumulate=3)
    assert (
        capped == "the device allows 3 micro-batches per step: a step has 96 samples instead of 128"
    )


@pytest.mark.parametrize("name", NATIVE)
def test_native_faults_are_isolated_first_then_kept_off_the_device(name: str) -> None:
    with_all: dict[str, Any] = {
        "miner__isolation": "none",
        "device__name": "gpu",
        "device__gpu__max_accumulate": 16,
        "train__accumulate": 12,
    }
    assert edits(name, phase="mining", **with_all) == [
        {"miner.isolation": "process"},
        {"device.name": "cpu"},
        {"train.batch_size": 192, "train.accumulate": 4},
        {"device.threads": 1},
    ]
    assert edits(name) == [{"device.threads": 1}]
    assert edits(name, device__threads=1) == []
    assert edits(name, process="miner", phase="") == [{"miner.name": "exact"}, {"miner.threads": 1}]


def test_deep_accumulation_is_cut_only_where_the_device_plans_a_cap() -> None:
    deep: dict[str, Any] = {"train__accumulate": 12, "device__threads": 1}
    assert edits("segfault", **deep) == []
    assert edits("segfault", **deep, device__cpu__max_accumulate=4) == []
    (edit,) = edits("segfault", **deep, device__cpu__max_accumulate=9)
    assert edit == {"train.batch_size": 144, "train.accumulate": 4}


def test_a_lost_device_is_left_for_the_cpu() -> None:
    assert edits("device-lost", device__name="gpu") == [{"device.name": "cpu"}]
    assert edits("device-lost") == []


@pytest.mark.parametrize("name", ["killed", "vanished", "disk-full", "data-changed", "non-finite"])
def test_what_no_setting_avoids_has_no_remedy(name: str) -> None:
    assert edits(name, miner__isolation="none", device__name="gpu") == []


def test_remedies_are_commands_a_person_can_type() -> None:
    remedy = remedies_for("omp-duplicate", SETTINGS | {"miner.isolation": "none"})[0]
    assert remedy.text == "ttf train ... --isolation process"
    assert remedies_for("oom-kill", SETTINGS)[0].text == "ttf train ... --batch-size 32 --accum 4"
    budget = remedies_for("oom-kill", SETTINGS, phase="mining")[0]
    assert budget.text == f"ttf train ... --set memory.budget={1 << 28}"


def test_a_strangers_command_gets_advice_and_no_edits() -> None:
    for name in ADVICE:
        found = remedies_for(name, {}, process="command")
        assert found and not any(remedy.set for remedy in found)
    assert remedies_for("killed", {}, process="command") == ()


def test_unknown_settings_give_no_remedy() -> None:
    for name in (*NATIVE, "oom-kill", "omp-duplicate", "device-lost"):
        assert remedies_for(name, {}) == ()


def test_the_flag_that_silences_openmp_is_never_a_remedy() -> None:
    processes: tuple[ProcessName, ...] = ("trainer", "miner", "command")
    for settings in ({}, SETTINGS, SETTINGS | {"miner.isolation": "none"}):
        for process in processes:
            found = remedies_for("omp-duplicate", settings, process=process)
            assert not any("KMP" in f"{remedy.text}{remedy.set}" for remedy in found)


def test_a_finding_carries_the_remedies_of_its_phase() -> None:
    death = Death(
        process="miner",
        pid=1,
        time=0.0,
        signal=9,
        oom_kills=1,
        oom_source="cgroup /job (memory.events)",
        settings=SETTINGS,
    )
    assert [dict(r.set) for r in classify(death).remedies] == [{"memory.budget": 1 << 28}]


def test_what_a_restart_would_meet_again_has_no_remedy() -> None:
    cut = FileChange(path="pairs.npz", was="2 bytes", now="1 bytes", cut=True)
    settings = SETTINGS | {"miner.isolation": "none"}
    for changed, expected in (((), True), ((cut,), False)):
        death = Death(
            process="trainer",
            pid=1,
            time=0.0,
            signal=signal.SIGBUS,
            changed_files=changed,
            settings=settings,
        )
        assert bool(classify(death).remedies) == expected


def test_advice_about_threads_is_for_those_who_have_them() -> None:
    """A null pointer given to ctypes has nothing to do with OpenMP."""

    def advice(**around: Any) -> str:
        found = remedies_for("segfault", {}, process="command", **around)
        return " ".join(remedy.text for remedy in found)

    assert "OMP_NUM_THREADS" in advice(threads=True, frame="faiss/swigfaiss.py:12 in search")
    assert "OMP_NUM_THREADS" not in advice(threads=False)
    by_ctypes = advice(
        threads=True, frame="/usr/lib/python3.12/ctypes/__init__.py:517 in string_at"
    )
    assert "OMP_NUM_THREADS" not in by_ctypes and "check the arguments" in by_ctypes
