"""The end of a tree of processes, also of one that flees."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ttf.process.child import NO_SESSION, kill_tree, tree_members

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
VARIABLE = "TTF_TEST_TREE"
FLEES = """
import os, time
for _ in range(5000):  # in twenty seconds it ends by itself
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.004)
"""


def test_a_process_that_always_has_another_number_is_ended() -> None:
    mark = str(os.getpid())
    environment = {**os.environ, VARIABLE: mark}
    with subprocess.Popen([sys.executable, "-S", "-c", FLEES], env=environment) as first:
        first.wait()
    assert list(tree_members(NO_SESSION, mark, VARIABLE))
    kill_tree(NO_SESSION, mark, VARIABLE)
    time.sleep(0.05)
    assert not list(tree_members(NO_SESSION, mark, VARIABLE))
