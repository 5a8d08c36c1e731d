"""Causes of the sixth round of unknown deaths: refused memory in other words, threads that a sandbox
forbids, questions to nobody, memory that others held, and where an exception was raised."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.last_words import TRACE, WORDS

from ttf.incidents.classify import classify
from ttf.incidents.death import Death
from ttf.machine.memory.tree import MemoryPoint
from ttf.process.activity import FOR_INPUT

FASTBIN = "malloc_consolidate(): unaligned fastbin chunk detected"
IN_A_WORKER = f"""\
{TRACE}RuntimeError: Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/env/site-packages/torch/utils/data/_utils/worker.py", line 358, in _worker_loop
    data = fetcher.fetch(index)
  File "/x/rows.py", line 7, in __getitem__
    return torch.embedding(table, n)
           ^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/env/site-packages/torch/functional.py", line 9, in embedding
    return _embedding(weight, n)
IndexError: index out of range in self
"""


def a_death(**more: Any) -> Death:
    values: dict[str, Any] = {"process": "command", "pid": 4242, "time": 1e9}
    return Death(**values | more)


@pytest.mark.parametrize(
    ("words", "ending", "name", "said"),
    [
        (WORDS["openblas may not"], {"signal": 2}, "alloc-failure", "a sandbox (seccomp)"),
        (WORDS["openblas may not"], {"signal": 2}, "alloc-failure", "nobody pressed Ctrl-C"),
        (
            WORDS["openblas may not"].replace(
                "KeyboardInterrupt", "RuntimeError: can't start new thread"
            ),
            {},
            "alloc-failure",
            "a sandbox (seccomp)",
        ),
        (WORDS["libgomp may not"], {}, "alloc-failure", "was not permitted to start a thread"),
        (WORDS["libgomp"], {}, "alloc-failure", "The system refused a thread"),
        (f"{TRACE}RuntimeError: Not enough memory", {}, "alloc-failure", "refused the request"),
        (
            f"{TRACE}RuntimeError: Not enough memory: addPoint failed",
            {},
            "alloc-failure",
            "refused",
        ),
        (f"{TRACE}pyarrow.lib.ArrowMemoryError: malloc of size 9 failed", {}, "alloc-failure", ""),
        (f"{TRACE}sqlite3.OperationalError: out of memory", {}, "alloc-failure", "refused"),
        (f"{TRACE}ValueError: not enough memory slots", {}, "python-error", "memory slots"),
        (WORDS["select"], {"signal": 6}, "abort", "a file descriptor of 1,024 or more"),
        (WORDS["stdin at the end"], {"signal": 6}, "abort", "the code of the script had ended"),
        (
            "*** %n in writable segment detected ***: terminated",
            {"signal": 6},
            "abort",
            "itself: %n",
        ),
        (FASTBIN, {"signal": 6}, "heap-corruption", FASTBIN),
        (f"{FASTBIN}\n{WORDS['worker aborted']}", {}, "heap-corruption", FASTBIN),
        (WORDS["no locks"], {}, "python-error", "/dev/shm is missing here"),
    ],
)
def test_what_was_written_leads_to_the_cause_and_proves_nothing(
    words: str, ending: dict[str, Any], name: str, said: str
) -> None:
    ended: dict[str, Any] = ending or {"exit_code": 1}
    found = classify(a_death(stderr=words, **ended))
    assert found.name == name and not found.certain
    assert said in found.explanation


def test_advice_for_a_named_reason_is_not_about_threads_of_openmp() -> None:
    for words in ("stdin at the end", "select", "assertion", "check of glog"):
        told = classify(a_death(signal=6, stderr=WORDS[words])).remedies
        assert told and not any("OMP_NUM_THREADS" in remedy.text for remedy in told)


def test_a_question_that_nobody_answers_gets_advice_about_the_question() -> None:
    stacks = 'Thread 0x1 (most recent call first):\n  File "t.py", line 5 in load\n'
    reason = f"no output for 15 s; {FOR_INPUT}"
    asked = a_death(signal=9, killed_by_us="hang", reason=reason, faulthandler=stacks)
    found = classify(asked)
    assert "it waited for an answer" in found.explanation
    told = " ".join(remedy.text for remedy in found.remedies)
    assert "Answer in advance" in told and "spawn" not in told


@pytest.mark.parametrize(("held", "said"), [(20, "in memory (/dev/shm"), (98, "ran out.")])
def test_a_kill_for_memory_that_others_held_says_so(held: int, said: str) -> None:
    point = MemoryPoint(time=1, step=1, anon=held << 20, shared=0, file=0, limit=100 << 20)
    proof = {"oom_source": "cgroup /job (memory.events)", "oom_kills": 1, "memory": (point,)}
    found = classify(a_death(signal=9, limit_source="cgroup /job (memory.max)", **proof))
    assert (found.name, found.certain) == ("oom-kill", True)
    assert said in found.explanation and ("/dev/shm" in found.explanation) == (held < 50)


@pytest.mark.parametrize("rank", ["", "[rank1]: "])
def test_an_exception_is_told_with_its_place_and_the_line_of_the_user(rank: str) -> None:
    words = "".join(f"{rank}{line}\n" for line in IN_A_WORKER.splitlines())
    found = classify(a_death(exit_code=1, stderr=words, uncaught="IndexError"))
    assert (
        "It was raised at /env/site-packages/torch/functional.py:9 in embedding, called from "
        "/x/rows.py:7 in __getitem__." in found.explanation
    )


def test_an_error_of_a_plugin_is_told_with_its_type() -> None:
    told = {"class": "PanicException", "message": "byte index 3", "traceback": IN_A_WORKER}
    found = classify(a_death(process="trainer", exit_code=70, error={**told, "known": False}))
    assert "PanicException: byte index 3." in found.explanation
    assert "/x/rows.py:7 in __getitem__" in found.explanation


def test_colours_of_a_message_are_left_out() -> None:
    words = f"{TRACE}_pickle.UnpicklingError: two options, \x1b[1mdo those\x1b[0m only"
    assert "two options, do those only." in classify(a_death(exit_code=1, stderr=words)).explanation
