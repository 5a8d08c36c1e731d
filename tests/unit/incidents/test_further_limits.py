"""Causes of the third round of unknown deaths: limits that are not memory, handlers of libraries,
workers that do not start."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from tests.kit.last_words import WORDS

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, ProcessEnd
from ttf.incidents.gather import Witness
from ttf.machine.memory.tree import MemoryPoint


def a_death(**more: Any) -> Death:
    values: dict[str, Any] = {"process": "trainer", "pid": 4242, "time": 1e9}
    return Death(**values | more)


@pytest.mark.parametrize(
    ("words", "signum", "name"),
    [
        ("openblas interrupts itself", 2, "alloc-failure"),
        ("openblas interrupts itself", 11, "segfault"),
        ("shared memory", None, "disk-full"),
        ("watches", None, "python-error"),
        ("map refused", None, "alloc-failure"),
        ("pure virtual", 6, "cxx-exception"),
        ("handler of a library", None, "segfault"),
        ("handler of a library", 9, "killed"),
        ("bus error in a handler", None, "bus-error"),
        ("no main guard", None, "python-error"),
        ("worker not started", None, "python-error"),
    ],
)
def test_what_a_process_wrote_decides_where_its_end_allows_it(
    words: str, signum: int | None, name: str
) -> None:
    death = a_death(signal=signum, exit_code=None if signum else 1, stderr=WORDS[words])
    assert classify(death).name == name


@pytest.mark.parametrize(
    ("words", "signum", "code", "said"),
    [
        ("openblas interrupts itself", 2, None, "OpenBLAS itself sent SIGINT"),
        ("shared memory", None, 1, "/dev/shm"),
        ("watches", None, 1, "fs.inotify.max_user_watches"),
        ("disk", None, 1, "Other limits have the same message"),
        ("pure virtual", 6, None, "called a virtual function"),
        ("handler of a library", None, 1, "Caught signal 11 (Segmentation fault"),
        ("bus error in a handler", None, 1, "Signal: Bus error (7)"),
        ("no main guard", None, 1, '`if __name__ == "__main__":`'),
        ("worker not started", None, 1, "ModuleNotFoundError: No module named 'rows'."),
    ],
)
def test_the_reason_that_a_process_wrote_is_told(
    words: str, signum: int | None, code: int | None, said: str
) -> None:
    found = classify(a_death(signal=signum, exit_code=code, stderr=WORDS[words]))
    assert said in found.explanation
    assert not found.certain


def test_memory_that_was_free_leads_to_the_limits_of_the_process() -> None:
    """65,530 small maps use up `vm.max_map_count`, and no memory."""
    small = MemoryPoint(time=1, step=1, anon=1, shared=0, file=0, limit=100)
    refused = a_death(exit_code=1, stderr=WORDS["map refused"], memory=(small,))
    assert "vm.max_map_count" in classify(refused).explanation
    large = replace(refused, memory=(replace(small, anon=99),))
    assert "vm.max_map_count" not in classify(large).explanation


def test_a_line_of_signs_alone_is_no_reason() -> None:
    found = classify(
        a_death(exit_code=1, stderr="licence server: no seat left (-15)\n==========\n")
    )
    assert "possibly the reason: licence server: no seat left (-15)." in found.explanation


def test_a_trainer_whose_stacks_could_not_be_read_is_not_said_to_have_left_them() -> None:
    hang = a_death(signal=9, killed_by_us="hang", reason="no sign of life for 60 s in mining")
    assert "could not read its stacks" in classify(hang).explanation
    dump = 'Thread 0x1 (most recent call first):\n  File "t.py", line 5 in fit\n'
    assert "saved its stacks" in classify(replace(hang, faulthandler=dump)).explanation


def test_a_limit_of_addresses_is_named_and_not_compared_with_the_memory_that_is_measured() -> None:
    point = MemoryPoint(time=0.0, step=0, anon=200 << 20, shared=0, file=0, limit=300 << 20)
    end = ProcessEnd(returncode=-11, memory=(point,), limit_source="RLIMIT_DATA")
    with Witness("trainer", os.getpid()) as witness:
        death = witness.death(end)
    assert death.own_limit == "315 MB (RLIMIT_DATA, ulimit -d)"
    assert "Enough memory was free" not in classify(death).explanation
    with Witness("trainer", os.getpid()) as witness:
        death = witness.death(replace(end, limit_source="physical memory"))
    assert death.own_limit == ""
    assert "Enough memory was free" in classify(death).explanation
