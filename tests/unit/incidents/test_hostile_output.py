"""Output that is made to cost time: the rules answer at once, whatever was written."""

from __future__ import annotations

import time

import pytest

from ttf.incidents.classify import classify, matches
from ttf.incidents.death import Death
from ttf.incidents.facts import DeathFacts, capped
from ttf.incidents.gather import TAIL_BYTES, native_library
from ttf.incidents.rules import RULES

MOST_S = 0.1
"""Of processor time, for one rule; a line of 64 kB took a rule 14 seconds before it was bounded."""
PIECES = [
    *(
        "_a",
        "7",
        "MTL",
        "a.",
        "\n",
        " ",
        "[a]: ",
        "Error: ",
        "in ",
        "malloc",
        "inline_container.cc",
    ),
    *("Thread 0x1", "Thread 0x1 (most recent call first):\n\n\n", "Fatal Python error: Aborted\n"),
    *(
        "Assertion '",
        'Binary file "',
        '  File "x", line 1 ',
        "Traceback (most recent call last):\n",
    ),
    *("multiprocessing/queues.py ", "DataLoader worker (pid 1, ", "killed by signal: "),
    *("CUDA error: x", "loss returned in ", "terminate called after throwing an instance of '"),
]


def _seconds(act: object, *given: object) -> float:
    """The least of three: others use the same processors."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        act(*given)  # type: ignore[operator]
        taken.append(time.process_time() - began)
        if taken[-1] < MOST_S / 4:
            break
    return min(taken)


@pytest.mark.parametrize("piece", PIECES)
def test_no_rule_takes_long_whatever_a_process_wrote(piece: str) -> None:
    text = (piece * (1_000_000 // len(piece)))[-TAIL_BYTES:]
    for signum, code, dump in ((6, None, ""), (None, 1, ""), (6, None, text)):
        death = Death(
            process="command",
            pid=1,
            time=0.0,
            signal=signum,
            exit_code=code,
            stderr=text,
            faulthandler=dump,
        )
        assert _seconds(lambda death=death: DeathFacts(death).names) < MOST_S
        facts = DeathFacts(death)
        slow = {r.name: s for r in RULES if (s := _seconds(matches, r.when, facts)) > MOST_S}
        assert not slow
        assert _seconds(classify, death) < 3 * MOST_S
    assert _seconds(native_library, text, text) < MOST_S


def test_long_lines_keep_their_ends_and_their_numbers() -> None:
    text = f"first\n{'x' * 5000}\nRuntimeError: {'y' * 3000} CUDA out of memory\n"
    shown = capped(text)
    assert shown.count("\n") == text.count("\n") and len(shown) < 4200
    assert shown.startswith("first\nxxx") and shown.endswith("yyy CUDA out of memory\n")
    death = Death(process="command", pid=1, time=0.0, exit_code=1, stderr=text)
    assert classify(death).name == "alloc-failure"
