"""`ttf ab` in processes of its own: real trainers that really die, and one that dies itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.memory_group import memory_group
from tests.kit.planted_training import Place, build
from tests.kit.widely import wide

if TYPE_CHECKING:
    from tests.conftest import Invoke

VARY = ("--vary", "loss.memory_bank=64,0")
"""The planted fault is met with a memory bank alone."""
FAULTY, SOUND = "loss.memory_bank=64", "loss.memory_bank=0"
ENDS = {
    "segv": ("segfault",),
    "abrt": ("abort",),
    "hang": ("hang",),
    "alloc": ("alloc-failure",),
    "oom": ("oom-kill", "memory-limit"),
}
LIMIT_MB = 1200


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Whoever still lives two seconds after the test is ended, and fails it."""
    made = build(tmp_path, tmp_path / "home", "ab")
    try:
        yield made
    finally:
        _wait_until_empty(made)
        left = made.living()
        for line in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
    assert not left, f"left behind: {left}"


def _wait_until_empty(place: Place) -> None:
    ends_at = time.monotonic() + 5
    while place.living() and time.monotonic() < ends_at:
        time.sleep(0.05)


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, f"it ended before {path.name} was there"
        time.sleep(0.02)


def _fault(acts: dict[int, str]) -> dict[str, Any]:
    return {"fault": "memory-bank", "acts": {str(seed): act for seed, act in acts.items()}}


def test_a_study_that_is_killed_goes_on_and_classifies_every_crash(
    place: Place, invoke: Invoke
) -> None:
    """Runs that are lost: tests/unit/tools/ab/test_running.py, and the study of twenty repeats."""
    fault = _fault({1: "once-segv"})
    words: list[str | Path] = [place.toml, *VARY, "--repeats", "1", "--steps", "6"]
    folder = place.root / "runs" / "ab-001"
    first = place.start(*words, fault=fault)
    _wait_for(folder / "samples.jsonl", first)
    running = folder / "runs" / f"001-{_second(folder)}"
    _wait_for(running / "flight.bin", first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    _wait_until_empty(place)
    assert not place.living(), "what it had started went with it"
    before = (folder / "samples.jsonl").read_text()

    code, document, err = place.study(*words, fault=fault)  # the same command
    assert code == 0, err
    assert "1 of 2 are already done" in err and "repeat 2 of 2" in err
    after = (folder / "samples.jsonl").read_text()
    assert after.startswith(before) and len(after.splitlines()) == 2
    assert document["folder"] == "runs/ab-001" and document["ended"] == "all"
    arms = {arm["name"]: arm for arm in document["arms"]}
    assert (arms[FAULTY]["crashes"], arms[FAULTY]["survived"], arms[FAULTY]["lost"]) == (1, 1, 0)
    assert set(arms[FAULTY]["classes"]) == {"segfault"}
    assert arms[SOUND]["crashes"] == 0 and arms[SOUND]["samples_per_s"] > 0
    samples = {(s["block"], s["arm"]): s for s in document["samples"]}
    survivor = samples[1, FAULTY]
    assert survivor["incidents"] == [{"name": "segfault", "process": "trainer", "step": 1}]
    assert survivor["steps"] > 6 and [e["step"] for e in survivor["evaluated"]] == list(range(7))
    assert {sample["seed"] for sample in samples.values()} == {1}
    kept = {path.name for run in (folder / "runs").iterdir() for path in run.iterdir()}
    assert "incidents" in kept and not kept & {"checkpoints", "model", "candidates"}
    page = folder / "report.html"
    page.unlink()
    assert invoke(["report", str(folder)]).code == 0
    assert page.is_file()


def _second(folder: Path) -> str:
    """The arm that runs after the one that has a sample."""
    ran = json.loads((folder / "samples.jsonl").read_text().splitlines()[0])["arm"]
    return SOUND if ran == FAULTY else FAULTY


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "No configuration was given"),
        (("run.toml",), 2, "at least two arms"),
        (("run.toml", "nowhere.toml"), 2, "nowhere.toml does not exist"),
        (("run.toml", "--margin", "samples=1"), 2, "Did you mean 'samples_per_s'?"),
        (("run.toml", "--margin", "loss=much"), 2, "loss=0.02"),
        (("--resume", "nowhere"), 3, "no study"),
        (
            ("--resume", "nowhere", "--seed", "1", "--set", "a=1"),
            2,
            "cannot be combined with --seed, --set",
        ),
    ],
    ids=["nothing", "one", "no file", "measure", "margin", "no study", "both"],
)
def test_wrong_words_are_answered_with_what_to_do(
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").touch()
    ended = invoke(["ab", *words])
    assert ended.code == code and text in ended.err
    assert not (tmp_path / "runs").exists()


@wide
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parallel", ["1", "2"])
def test_twenty_repeats_of_two_arms_with_every_kind_of_death(place: Place, parallel: str) -> None:
    """The bar of the issue; `pytest -s` shows the lines."""
    acts = {3: "segv", 5: "once-segv", 8: "hang", 11: "alloc", 14: "abrt", 17: "once-abrt"}
    acts |= {9: "oom", 19: "once-oom"}
    words: list[str | Path] = [
        place.toml,
        *VARY,
        "--repeats",
        "20",
        "--steps",
        "6",
        "--hang-timeout",
        "8s",
    ]
    words += ["--set", "supervise.max_restarts=1", "--parallel", parallel]
    with memory_group(LIMIT_MB) as group:
        process = place.start(*words, "--json", fault=_fault(acts))
        (group.folder / "cgroup.procs").write_text(str(process.pid))
        out, err = process.communicate(timeout=1500)
    print(err)
    assert process.returncode == 0, err
    document = json.loads(out)
    found = {(s["block"], s["arm"]): s for s in document["samples"]}
    assert len(found) == len(document["samples"]) == 40
    for (block, arm), sample in found.items():
        act = acts.get(block, "") if arm == FAULTY else ""
        outcome = "survived" if "once" in act else "lost" if act else "clean"
        classes = {incident["name"] for incident in sample["incidents"]}
        assert sample["outcome"] == outcome, (block, arm, sample["reason"])
        assert bool(classes) == bool(act)
        assert classes <= set(ENDS.get(act.removeprefix("once-"), ())), (block, classes)
    assert not place.living()


@wide
@pytest.mark.timeout(600)
def test_ctrl_c_tells_what_there_is_and_leaves_nothing_running(place: Place) -> None:
    words: list[str | Path] = [
        place.toml,
        *VARY,
        "--repeats",
        "5",
        "--steps",
        "6",
        "--parallel",
        "2",
        "--json",
    ]
    process = place.start(*words)
    folder = place.root / "runs" / "ab-001"
    _wait_for(folder / "samples.jsonl", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "ttf ab --resume runs/ab-001" in err
    document = json.loads(out)
    assert document["error"]["exit_code"] == 130
    assert 1 <= len(document["study"]["samples"]) < 10
    assert not list((folder / "runs").glob("*.out"))
