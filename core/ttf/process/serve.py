"""The child's end: `python -m ttf.process.serve MODULE KIND STACKS LIFELINE RESULTS PARENT`.

Calls the functions of MODULE that its parent names in messages on the life line, and sends back
what they tell and answer. "once": it does one task, and ends as any program ends, because a crash
while libraries are torn down counts as well. "warm": it takes one task after another, with its
imports kept, until its parent ends it. STACKS is a file; empty: standard error.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.process import child, conversation, lifeline

Tell = Callable[[Mapping[str, Any]], None]
# Takes the request and a function that sends news; returns the answer, or None if it was sent.
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any] | None]
WARM: Final = "warm"
# faulthandler also for what dies before `main`: an interpreter in a broken environment.
_SERVE: Final = ("-Xfaulthandler", "-m", "ttf.process.serve")


def once(module: str) -> tuple[str, ...]:
    """Returns the command words of a child for one task."""
    return (*_SERVE, module, "once", "")


def warm(module: str, stacks: Path | None) -> tuple[str, ...]:
    """Returns the command words of a child for many tasks. `stacks` is an existing file."""
    return (*_SERVE, module, WARM, str(stacks or ""))


def task(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the message that requests a task. Replies carry its number, if it has one."""
    return {"task": name, "request": dict(request)}


def main(module: str, kind: str, stacks: str, life: int, results: int, parent: int) -> None:
    lifeline.die_with_parent(parent)
    for fd in (life, results):  # what it starts must not hold the pipes
        os.set_inheritable(fd, False)
    if kind == WARM:
        lifeline.start_keeper(life, child.WORKER)
    lifeline.be_killed_first()  # after the fork: the keeper must outlive this process
    lifeline.stacks_to(Path(stacks) if stacks else None)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    handlers, ready = ({"stage": stage} for stage in conversation.STAGES)
    conversation.tell(results, handlers)
    conversation.follow(life, requests.put)
    _answer(module, requests.get(), results, kind, when_ready=ready)
    while kind == WARM:
        _answer(module, requests.get(), results, kind)


def _answer(
    module: str,
    message: Mapping[str, Any],
    results: int,
    kind: str,
    when_ready: Mapping[str, Any] | None = None,
) -> None:
    """Sends `when_ready` after the import of the module, which may take long."""

    def tell(news: Mapping[str, Any]) -> None:
        conversation.tell(results, {"number": message.get("number", 0), **news})

    # A plugin that calls sys.exit ends a warm child, and is an error to one that would end anyway.
    caught = (Exception,) if kind == WARM else (Exception, SystemExit)
    try:
        work: Work = getattr(importlib.import_module(module), message["task"])
        if when_ready is not None:
            conversation.tell(results, when_ready)
        answer = work(message["request"], tell)
    except caught as error:
        from ttf.process.error_document import to_document

        tell({"error": to_document(error)})
        return
    if answer is not None:
        tell({"answer": dict(answer)})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7]))
