"""The other side of `throwaway`: `python -m ttf.supervise.throwaway_main LIFELINE RESULTS DISPLAY PARENT`.

Does the one task it is asked for, says what it is at, and ends as any program ends: a crash while
libraries are torn down counts as well. Leaves at once when the doctor is gone.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ttf.process import lifeline, messages

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any]]


def main(life: int, results: int, parent: int, find: Callable[[str], Work]) -> None:
    """`find`: the task of a name."""
    lifeline.die_with_parent(parent)
    for fd in (life, results):
        os.set_inheritable(fd, False)
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    _be_the_first_victim()
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    lifeline.follow(life, requests.put)
    message = requests.get()
    os.environ["TMPDIR"] = message["scratch"]  # libraries leave folders where temporary files go

    def tell(news: Mapping[str, Any]) -> None:
        messages.write(results, news)

    tell(_done(find, message["task"], message["request"], tell))


def _done(
    find: Callable[[str], Work], name: str, request: Mapping[str, Any], tell: Tell
) -> dict[str, Any]:
    from ttf.process.error_document import to_document

    try:
        return {"answer": find(name)(request, tell)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the doctor
        return {"error": to_document(error)}


def _be_the_first_victim() -> None:
    """Where memory runs out, the kernel ends this process and not the doctor."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # an old kernel or a sandbox: then any may be chosen
            Path("/proc/self/oom_score_adj").write_text("1000")
