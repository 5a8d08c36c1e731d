"""A thread that nobody ends does not keep a finished run from ending."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENDED = """
import queue, sys, threading
from ttf.training.late_threads import end_in_time
todo = queue.Queue()
def send():
    todo.get()
threading.Thread(target=send, name="uploader", daemon={daemon}).start()
end_in_time(5, lambda text: print(text, flush=True), said_after_s=0.05, ended_after_s=0.05)
sys.exit(5)
"""


@pytest.mark.parametrize("daemon", [False, True])
def test_a_thread_that_nobody_ends_is_named_and_the_exit_code_stays(daemon: bool) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDED.format(daemon=daemon)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 5
    said = ended.stdout.splitlines()
    if daemon:
        assert said == []
    else:
        assert "the thread uploader (send in <string>:6)" in said[0] and len(said) == 2
