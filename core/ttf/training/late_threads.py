"""Threads that would keep the trainer's process alive after its run has ended."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

SAID_AFTER_S: Final = 10.0
ENDED_AFTER_S: Final = 120.0  # enough to send the last numbers to a server


def end_in_time(
    code: int,
    say: Callable[[str], None],
    *,
    said_after_s: float = SAID_AFTER_S,
    ended_after_s: float = ENDED_AFTER_S,
) -> None:
    """Makes sure that this process ends with `code`; call it when there is nothing left to do.

    Python waits for every thread that is no daemon. A thread that an observer or a library started,
    and that nobody ends, is named by `say` and then waited for in vain for a limited time.
    """

    def watch() -> None:
        time.sleep(said_after_s)
        if late := _late():
            say(
                f"The run has ended, but {late} in its process has not: Python waits for each thread "
                "that is no daemon thread. A plugin or a library started it and should end it. ttf ends "
                f"the process in {ended_after_s:g} s."
            )
            time.sleep(ended_after_s)
            if late := _late():
                try:
                    say(f"ttf ended the process of the run together with {late}.")
                finally:  # also if the screen is gone
                    os._exit(code)

    threading.Thread(target=watch, daemon=True, name="ttf-late-threads").start()


def _late() -> str:
    """'the thread uploader (send in x.py:12)', or ''."""
    frames = sys._current_frames()
    main = threading.main_thread()
    for thread in threading.enumerate():
        if thread is main or thread.daemon or thread.ident not in frames:
            continue
        stack = traceback.extract_stack(frames[thread.ident])
        begun = next((frame for frame in stack if frame.filename != threading.__file__), None)
        where = "" if begun is None else f" ({begun.name} in {begun.filename}:{begun.lineno})"
        return f"the thread {thread.name}{where}"
    return ""
