"""What children leave behind is ended and reaped, and nobody else's process is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Final

import pytest
from tests.kit.processes import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has subreapers")
LEAVES: Final = """
import os, signal, sys
from ttf.process.orphans import Orphans

orphans = Orphans()
child = os.fork()
if not child:
    for number in range(100):  # each in a session of its own, every second with a child in another
        if not os.fork():
            os.setsid()
            if number % 2 and not os.fork():
                os.setsid()
            signal.pause()
    os._exit(0)
os.waitpid(child, 0)
orphans.end()
try:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
except ChildProcessError:
    print("nobody is left")
"""
FINDS: Final = """
from ttf.process.orphans import Orphans

Orphans().end()
"""


def test_a_hundred_daemons_and_their_children_are_ended_and_reaped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("nobody is left\n", "")


def test_a_job_that_a_shell_left_before_it_became_this_process_is_not_ended() -> None:
    shell = 'sleep 600 >/dev/null 2>&1 & echo $!; exec "$0" -c "$1"'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, FINDS], capture_output=True, text=True, check=True
    )
    job = int(done.stdout)
    try:
        assert alive(job)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(job, signal.SIGKILL)
