"""Causes of the fourth round of unknown deaths: launchers, loaders, storage, terminals, upgrades."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.last_words import TRACE, WORDS

from ttf.incidents.classify import classify
from ttf.incidents.code_files import written_since
from ttf.incidents.death import Death
from ttf.process.activity import IN_THE_KERNEL, waits_in_the_kernel


def a_death(**more: Any) -> Death:
    values: dict[str, Any] = {"process": "command", "pid": 4242, "time": 1e9, "exit_code": 1}
    return Death(**values | more)


@pytest.mark.parametrize(
    ("words", "more", "name", "said"),
    [
        ("loader timed out", {}, "hang", "workers of its DataLoader"),
        ("signal of torchrun", {}, "killed", "SIGHUP came to a launcher"),
        ("terminal gone", {}, "python-error", "a terminal that was closed"),
        ("no thread of c++", {"signal": 6}, "cxx-exception", "pids.max"),
        ("no display", {"signal": 6}, "abort", "could not connect to display"),
        ("gloo", {}, "hang", "did not answer in time"),
    ],
)
def test_what_was_written_leads_to_the_cause_and_proves_nothing(
    words: str, more: dict[str, Any], name: str, said: str
) -> None:
    code = None if more else 1
    found = classify(a_death(stderr=WORDS[words], **more | {"exit_code": code}))
    assert found.name == name
    assert said in found.explanation
    assert not found.certain


def test_an_exception_that_names_no_signal_is_an_exception() -> None:
    found = classify(a_death(stderr=f"{TRACE}SignalException: no signal in channel 3"))
    assert found.name == "python-error"


@pytest.mark.parametrize("words", ["gloo", "loader timed out", "signal of torchrun"])
def test_advice_for_other_hangs_is_not_given_where_it_does_not_apply(words: str) -> None:
    found = classify(a_death(stderr=WORDS[words]))
    advice = " ".join(remedy.text for remedy in found.remedies)
    assert advice
    assert not any(word in advice for word in ("faulthandler", "fork", "--hang-timeout"))


def test_a_wait_in_the_kernel_leads_to_storage_and_not_to_stacks() -> None:
    hang = a_death(
        signal=9, exit_code=None, killed_by_us="hang", reason=f"no I/O for 9 s; {IN_THE_KERNEL}"
    )
    found = classify(hang)
    assert "a disk or a network file system does not answer" in found.explanation
    assert "faulthandler" not in " ".join(remedy.text for remedy in found.remedies)
    dump = 'Thread 0x1 (most recent call first):\n  File "t.py", line 5 in fit\n'
    assert "does not answer" not in classify(replace(hang, faulthandler=dump)).explanation


@pytest.mark.parametrize(
    ("state", "where", "children", "stuck"),
    [
        ("D", "jbd2_log_wait_commit", "", True),
        ("D", "wait_for_vfork_done", "77", False),
        ("D", "0", "77", False),
        ("D", "0", "", True),
        ("S", "futex_wait_queue", "", False),
    ],
)
def test_a_parent_in_vfork_does_not_wait_for_a_disk(
    tmp_path: Path, state: str, where: str, children: str, stuck: bool
) -> None:
    task = tmp_path / "proc/7/task/7"
    task.mkdir(parents=True)
    (task / "stat").write_text(f"7 (my (odd) name) {state} 1 7 7 0")
    (task / "wchan").write_text(where)
    (task / "children").write_text(children)
    assert waits_in_the_kernel(7, tmp_path) is stuck


def test_code_that_was_written_during_the_run_is_named(tmp_path: Path) -> None:
    old, new = tmp_path / "train.py", tmp_path / "layers.py"
    for path, age in ((old, 1000), (new, 2000)):
        path.touch()
        os.utime(path, (age, age))
    text = (
        f'Traceback (most recent call last):\n  File "{old}", line 3, in <module>\n'
        f"ImportError: cannot import name 'ema' from 'layers' ({new})\n"
    )
    assert written_since(text, 1500) == (str(new),)
    assert written_since(text, 2500) == ()
    death = a_death(stderr=text, uncaught="ImportError", newer_code=(str(new),))
    assert f"{new} was written after this process had started" in classify(death).explanation
    other = replace(death, stderr=f"{TRACE}KeyError: 3", uncaught="KeyError")
    assert "was written" not in classify(other).explanation


def test_hints_after_a_failure_are_not_taken_for_the_reason() -> None:
    said = "engine: cannot open the index\n\nKnown kinds of index are: flat, ivf.\n"
    told = classify(a_death(stderr=said)).explanation
    assert "One of the last lines that it wrote is possibly the reason: engine: cannot open" in told
    told = classify(a_death(stderr="licence: no seat left\n")).explanation
    assert "The last line that it wrote is possibly the reason: licence: no seat left." in told
