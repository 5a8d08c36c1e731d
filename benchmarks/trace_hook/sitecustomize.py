"""On the path of a run that `trace_walk.py` watches: writes every entry of a function of ours.

TRACE_WALK is a JSON object: `out`, the folder for records; `roots`, where our files lie; `strike`,
the name of a function, and `run`, a run's folder: the first process that enters the function while
the run has a checkpoint is killed there, and no other.

A record is a file a process, a line an event, its fields parted by tabs: A the process, P it is
about to start another, T a thread begins, F a function, C it is entered, R it is left, K the kill.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import opcode
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_RETURN_GENERATOR: Final = opcode.opmap["RETURN_GENERATOR"]
_RESUME: Final = opcode.opmap["RESUME"]


def _watch(settings: dict[str, Any]) -> None:
    out, roots = Path(settings["out"]), tuple(settings["roots"])
    fd = os.open(out / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    known: dict[CodeType, int] = {}
    numbers = itertools.count(1)  # two threads must not draw the same
    thread = _numbered_threads(lambda child, parent: write("T", child, parent))

    def write(*fields: object) -> None:  # at once: who is killed has no time left
        os.write(fd, ("\t".join(map(str, fields)).replace("\n", " ") + "\n").encode())

    def number(frame: FrameType) -> int:
        code, found = frame.f_code, 0
        if code.co_filename.startswith(roots):
            found = next(numbers)
            program = int(frame.f_globals.get("__name__") == "__main__")
            function = int(bool(code.co_flags & inspect.CO_OPTIMIZED))  # else a class or a module
            where = (code.co_filename, code.co_firstlineno, code.co_qualname)
            write("F", found, program, function, *where)
        known[code] = found
        return found

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        function = known[code] if code in known else number(frame)
        if not function:
            return
        if event == "return":
            write("R", thread(), function)
            return
        write("C", thread(), function, time.monotonic(), int(_is_resumed(frame)))
        if code.co_name == settings["strike"] and _has_checkpoint(Path(settings["run"])):
            try:
                (out / "struck").touch(exist_ok=False)
            except FileExistsError:
                return
            write("K", time.monotonic())
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, _: object) -> None:
        if event == "subprocess.Popen":
            write("P", thread())

    write("A", time.monotonic(), os.getppid(), " ".join(sys.orig_argv))
    sys.addaudithook(audit)
    os.register_at_fork(after_in_child=functools.partial(sys.setprofile, None))
    threading.setprofile(profile)
    sys.setprofile(profile)


def _is_resumed(frame: FrameType) -> bool:
    """A generator's frame is entered for every item; only the first time is it called.
    Python 3.11 is at RETURN_GENERATOR then, later ones are at RESUME 0."""
    code, at = frame.f_code, max(0, frame.f_lasti)
    if not code.co_flags & inspect.CO_GENERATOR:
        return False
    instruction, argument = code.co_code[at : at + 2]
    return instruction != _RETURN_GENERATOR and (instruction, argument) != (_RESUME, 0)


def _has_checkpoint(run: Path) -> bool:
    folder = run / "checkpoints"
    return folder.is_dir() and any(entry.name[0] != "." for entry in folder.iterdir())


def _numbered_threads(tell: Callable[[int, int], None]) -> Callable[[], int]:
    """What tells the number of the thread that asks, 0 for the main one. `tell` is told of every
    thread that begins, and of the one that starts it."""
    local, numbers, start = threading.local(), itertools.count(1), threading.Thread.start

    def mine() -> int:
        number: int | None = getattr(local, "number", None)
        if number is None:
            # current_thread() would make a thread object where there is none.
            active: dict[int, threading.Thread] = getattr(threading, "_active", {})
            number = getattr(active.get(threading.get_ident()), "_trace_walk", 0)
            local.number = number
        return number

    def told(self: threading.Thread) -> None:
        number = vars(self)["_trace_walk"] = next(numbers)
        tell(number, mine())
        start(self)

    threading.Thread.start = told  # type: ignore[method-assign]
    return mine


if "TRACE_WALK" in os.environ:
    _watch(json.loads(os.environ["TRACE_WALK"]))
