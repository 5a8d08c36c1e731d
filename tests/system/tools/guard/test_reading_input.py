"""A process that waits for an answer on the standard input that it shares with us."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ttf.process import platform

WATCHER = """
import subprocess, sys, time
from ttf.process.activity import waits_for_our_input
shares = {"ours": None, "another": subprocess.PIPE}[sys.argv[1]]
child = subprocess.Popen([sys.executable, "-c", "print('?', flush=True); input()"], stdin=shares,
                         stdout=subprocess.PIPE)
child.stdout.read(1)
deadline, found = time.monotonic() + float(sys.argv[2]), False
while not found and time.monotonic() < deadline:
    found = waits_for_our_input(child.pid)
    time.sleep(0.01)
child.kill()
child.wait()
print(found, waits_for_our_input(child.pid))
"""


@pytest.mark.skipif(not platform.PROC, reason="needs /proc")
@pytest.mark.parametrize(
    ("whose", "within_s", "said"), [("ours", 30, "True False"), ("another", 0.2, "False False")]
)
def test_only_a_question_to_our_own_input_is_seen(whose: str, within_s: float, said: str) -> None:
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER, whose, str(within_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watcher.stdout is not None and watcher.stdin is not None
    with watcher:
        assert watcher.stdout.read().strip() == said
