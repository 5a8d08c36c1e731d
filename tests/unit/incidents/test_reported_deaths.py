"""Causes of the fifth round of unknown deaths: children that aborted or were killed, lock files, full
temporary folders, names of hosts, libraries that ran out of something."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.last_words import MANY_THREADS, WAITS_FOR_LOCK, WORDS

from ttf.incidents.classify import classify
from ttf.incidents.death import Death


def a_death(**more: Any) -> Death:
    values: dict[str, Any] = {"process": "command", "pid": 4242, "time": 1e9}
    return Death(**values | more)


@pytest.mark.parametrize(
    ("words", "ending", "name", "said"),
    [
        ("child out of memory", {}, "alloc-failure", "C++ code in a child process"),
        ("child's stack smashed", {}, "heap-corruption", "stack smashing detected."),
        ("child's heap", {}, "heap-corruption", "in a child process of the command"),
        ("child's exception of c++", {}, "cxx-exception", "type gloo::EnforceNotMet"),
        ("child's exception of c++", {}, "cxx-exception", "Received data size doesn't match"),
        ("child's thread of c++", {}, "cxx-exception", "by std::terminate"),
        ("child's check", {}, "abort", "Check failed: rows_ > 0 (0 vs. 0)."),
        ("worker aborted", {}, "abort", "A child process of the command called abort."),
        ("child killed", {}, "killed", "was killed by SIGKILL"),
        ("no temporary folder", {}, "python-error", "No usable temporary directory"),
        ("regions of openblas", {"signal": 11}, "segfault", "Too many threads called OpenBLAS"),
        ("regions of openblas", {"signal": 6}, "abort", "called abort"),
        ("no libgcc", {"signal": 6}, "abort", "could not open another file (ulimit -n)"),
        ("unknown host", {}, "rendezvous-failed", "trainer-0.invalid: Name or service not known."),
        ("loss of detectron", {}, "non-finite", "Loss became infinite or NaN at iteration=3!"),
    ],
)
def test_what_was_written_leads_to_the_cause_and_proves_nothing(
    words: str, ending: dict[str, Any], name: str, said: str
) -> None:
    ended: dict[str, Any] = ending or {"exit_code": 1}
    found = classify(a_death(stderr=WORDS[words], **ended))
    assert found.name == name and not found.certain
    assert said in found.explanation


def test_words_of_an_abort_count_only_if_a_child_aborted() -> None:
    caught = WORDS["child's heap"].replace("signal SIGABRT", "exit code 1")
    assert classify(a_death(exit_code=1, stderr=caught)).name == "python-error"


@pytest.mark.parametrize(
    "proof",
    [
        {"oom_source": "cgroup /job (memory.oom_control)", "oom_kills": 1},
        {
            "oom_source": "/proc/vmstat (oom_kill)",
            "oom_kills": 1,
            "kernel": "Memory cgroup out of memory: Killed process 4243 (python)",
        },
    ],
)
def test_a_rank_that_the_kernel_killed_for_memory_is_no_plain_kill(proof: dict[str, Any]) -> None:
    found = classify(a_death(exit_code=1, stderr=WORDS["child killed"], **proof))
    assert (found.name, found.certain) == ("oom-kill", True)


def test_a_killed_rank_and_a_kill_elsewhere_on_the_machine_prove_nothing() -> None:
    elsewhere = {"oom_source": "/proc/vmstat (oom_kill)", "oom_kills": 1}
    assert (
        classify(a_death(exit_code=1, stderr=WORDS["child killed"], **elsewhere)).name == "killed"
    )


def test_no_temporary_folder_on_a_full_disk_names_the_disk() -> None:
    found = classify(
        a_death(exit_code=1, stderr=WORDS["no temporary folder"], free_disk={"/tmp": 0})
    )
    assert found.name == "disk-full" and not found.certain
    assert "/tmp: 0 B free" in found.explanation


def test_a_wait_for_a_lock_file_gets_advice_about_the_file() -> None:
    found = classify(
        a_death(signal=9, killed_by_us="hang", reason="no output", faulthandler=WAITS_FOR_LOCK)
    )
    assert "It waited for a lock file." in found.explanation
    told = " ".join(remedy.text for remedy in found.remedies)
    assert "~/.cache/torch_extensions" in told and "OMP_NUM_THREADS" not in told


def test_a_list_of_threads_that_was_cut_does_not_show_a_foreign_thread() -> None:
    """faulthandler lists 100 threads, and the one that crashed is not always among them."""
    cut = classify(a_death(signal=11, faulthandler=MANY_THREADS)).explanation
    assert "ran no Python code" not in cut
    whole = MANY_THREADS.removesuffix("...\n")
    assert "ran no Python code" in classify(a_death(signal=11, faulthandler=whole)).explanation
