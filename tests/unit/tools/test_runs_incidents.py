"""`ttf runs incidents`: the deaths of folders as they lie, in a table, in JSON, and as a verdict."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke

from ttf.tools.runs.deaths import _survivors, deaths_in
from ttf.tools.runs.pattern import pattern_of

PLACE = {"micro_batches": 16, "boundary_share": 0.2, "phase": "forward", "process": "trainer"}


def folder(path: Path, *incidents: dict[str, Any], guarded: bool = False) -> Path:
    path.mkdir(parents=True)
    (path / ("environment.json" if guarded else "run.toml")).write_text("{}" if guarded else "")
    for number, found in enumerate(incidents, start=1):
        (path / "incidents" / f"{number:03d}").mkdir(parents=True)
        text = json.dumps({"class": "segfault", "time": 1000.0 * number, **found})
        (path / "incidents" / f"{number:03d}" / "incident.json").write_text(text)
    return path


def memory(path: Path, *points: tuple[float, int]) -> None:
    lines = [json.dumps({"time": at, "anon": held, "shared": 0, "step": 0}) for at, held in points]
    (path / "memory.jsonl").write_text("\n".join(lines) + "\n")


def test_a_run_that_dies_at_the_boundary_is_called_tied_and_a_bisect_is_next(
    tmp_path: Path, invoke: Invoke
) -> None:
    deaths = [{**PLACE, "step": n, "micro_batch": 16, "trained_s": 7.0 * 2**n} for n in range(6)]
    run = folder(tmp_path / "run-001", *deaths)
    done = invoke(["runs", "incidents", run])
    assert done.code == 0 and "16 of 16" in done.out and "6 of 6 deaths in the first" in done.out
    assert "The 6 deaths are tied to the optimizer boundary" in done.err
    assert done.err.endswith(f"Next: ttf bisect {run}\n")
    document = invoke(["runs", "incidents", run, "--json"]).json()
    assert document["tied_to"] == ["boundary"] and document["deaths"] == 6
    assert document["incidents"][0]["class"] == "segfault"
    assert document["incidents"][0]["at_boundary"] is True


def test_deaths_of_which_little_is_known_prove_nothing_and_the_output_says_what_would(
    tmp_path: Path, invoke: Invoke
) -> None:
    old = folder(tmp_path / "run-001", {"process": "trainer", "step": 4}, {"process": "miner"})
    few = folder(tmp_path / "run-002", {**PLACE, "step": 1, "micro_batch": 1})
    done = invoke(["runs", "incidents", old, few])
    assert done.code == 0 and "Nothing ties the 2 deaths" in done.err
    assert "with 1, even 1 of 1 at the boundary prove nothing" in done.err
    assert (
        "1 incident of other processes (miner, supervisor) was not tested" in done.err
        and "segfault, miner" in done.out
    )


def test_the_batch_that_a_guarded_command_printed_gives_its_micro_batch(
    tmp_path: Path, invoke: Invoke
) -> None:
    batches = (117, 464, 472, 927, 951)
    guards = [
        folder(tmp_path / f"guard-{n}", {"process": "command"}, guarded=True) for n in range(5)
    ]
    for guard, batch in zip(guards, batches, strict=True):
        words = f"epoch 1 batch {batch - 1} loss 2.0\nepoch 1 batch {batch} loss 1.9\n"
        (guard / "incidents" / "001" / "stdout.txt").write_text(words)
    found = invoke(["runs", "incidents", *guards, "--accumulate", "16", "--json"]).json()
    assert [one["batch_of_epoch"] for one in found["incidents"]] == list(batches)
    assert [one["at_boundary"] for one in found["incidents"]] == [False, True, False, True, False]
    assert found["looks"][0]["p"] == pytest.approx(0.215, abs=1e-3) and found["tied_to"] == []
    other_words = ["--accumulate", "16", "--batch", r"epoch (\d+)", "--json"]
    other = invoke(["runs", "incidents", *guards, *other_words]).json()
    assert {one["batch_of_epoch"] for one in other["incidents"]} == {1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--batch", "x"], "--batch needs --accumulate"),
        (["--accumulate", "2", "--batch", "("], "--batch is no regular expression"),
        (["--accumulate", "2", "--batch", "x"], "--batch has no group in parentheses"),
    ],
)
def test_a_wrong_pattern_is_refused(
    tmp_path: Path, invoke: Invoke, words: list[str], said: str
) -> None:
    done = invoke(["runs", "incidents", folder(tmp_path / "run-001"), *words])
    assert done.code == 2 and said in done.err


def test_an_end_that_the_user_asked_for_is_no_death(tmp_path: Path, invoke: Invoke) -> None:
    asked = {"class": "killed", "process": "command", "asked": True, "age_s": 9.0, "time": 1009.0}
    guard = folder(tmp_path / "guard-001", asked, guarded=True)
    memory(guard, (1000.0, 5), (1008.0, 6))
    seen = deaths_in([guard])
    assert (seen.deaths, seen.survived_s) == ((), (8.0,))
    assert "No incident in 1 run." in invoke(["runs", "incidents", guard]).err


def test_no_incident_and_no_run_are_said(tmp_path: Path, invoke: Invoke) -> None:
    run = folder(tmp_path / "runs" / "run-001")
    assert "No incident in 1 run." in invoke(["runs", "incidents", run]).err
    (tmp_path / "empty").mkdir()
    done = invoke(["runs", "incidents", tmp_path / "empty"])
    assert done.code == 3 and "There is no folder of a run" in done.err


def test_the_process_that_outlived_the_deaths_is_counted_as_a_life(tmp_path: Path) -> None:
    run = folder(
        tmp_path / "run-001",
        {**PLACE, "step": 1, "micro_batch": 3, "age_s": 20.0, "trained_s": 15.0},
    )
    memory(run, (980.0, 5), (999.0, 6), (1001.0, 5), (1050.0, 7), (1101.0, 7))
    seen = deaths_in([run])
    assert seen.survived_s == (95.0,), "less the start-up; what was before the incident is its own"
    assert sorted(seen.memory_bytes) == [5, 5, 6, 7, 7]


def test_thousands_of_sittings_among_thousands_of_samples_take_no_time() -> None:
    began = [float(at) for at in range(20_000)]
    samples = [(at / 2, 1) for at in range(40_000)]
    started = time.process_time()
    assert set(_survivors(samples, (), began)) == {0.5}
    assert time.process_time() - started < 1.0


def test_times_that_no_clock_gave_count_as_unknown(tmp_path: Path, invoke: Invoke) -> None:
    mined = {"since_mining_steps": 1, "mined_for_steps": 9, "micro_batch": 1}
    for key in ("time", "age_s", "trained_s", "since_mining_s", "boundary_share"):
        for number, value in enumerate((1e299, -1e299, 1e-300)):
            run = folder(
                tmp_path / key / str(number),
                *({**PLACE, **mined, "since_mining_s": 1.0, key: value} for _ in range(3)),
            )
            memory(run, (-1e308, 1), (1e308, 2), (1.0, 3), (3.0, 4))
            done = invoke(["runs", "incidents", run])
            assert (done.code, done.err.count("bug in ttf")) == (0, 0)


def test_a_life_too_short_for_a_float_is_no_fault(tmp_path: Path) -> None:
    mined = {"since_mining_steps": 1, "mined_for_steps": 9, "micro_batch": 1}
    short = {**PLACE, **mined, "since_mining_s": 1e-300, "trained_s": 1e10}
    seen = deaths_in([folder(tmp_path / "run-001", short, short)])
    assert 0 < seen.deaths[0].since_mining_share < 1  # type: ignore[operator]
    assert pattern_of(seen).deaths == 2
