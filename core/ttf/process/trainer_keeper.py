"""The keeper: a process beside the trainer that ends a run which nobody can look after any more.

    supervisor ~~~ life line ~~~> trainer --> whatever it started
         ~~~~~~~~~ life line ~~~> keeper

The kernel ends the trainer with its supervisor (where it can), but not what the trainer started,
and does nothing about a supervisor that is only stopped. The trainer's own threads would, but
cannot while C code holds the interpreter lock.
"""

from __future__ import annotations

import os
import select
import time
from typing import Final

from ttf.process import descendants
from ttf.process.child import TREE
from ttf.process.lifeline import is_stopped, wake_when_parent_ends

_LOOK_EVERY_S: Final = 0.2
_GRACE_S: Final = 0.4
"""For a trainer that can to leave by itself."""
_STOPPED_LOOKS: Final = 6
_MOST_FILES: Final = 1024


def start(lifeline: int, supervisor: int) -> None:
    """Forks it off. Only for a process that has one thread and loaded no library yet: a fork after
    any OpenMP work hangs. It holds the life line, to see its end, and nothing else of ours."""
    trainer = os.getpid()
    if os.fork():
        return
    try:
        os.closerange(0, lifeline)
        os.closerange(lifeline + 1, _MOST_FILES)
        wake_when_parent_ends()
        _keep_watch(lifeline, supervisor, trainer)
        descendants.kill(trainer, os.environ[TREE], TREE)
        descendants.remove_marks(trainer)
    finally:
        os._exit(0)


def _keep_watch(lifeline: int, supervisor: int, trainer: int) -> None:
    """Until the trainer is gone, or must go."""
    line = select.poll()
    line.register(lifeline, 0)  # its end alone: what is said there is for the trainer
    stopped = 0
    while os.getppid() == trainer:
        if line.poll(1000 * _LOOK_EVERY_S):
            time.sleep(_GRACE_S)
            return
        stopped = stopped + 1 if is_stopped(supervisor) else 0
        if stopped >= _STOPPED_LOOKS:
            return
