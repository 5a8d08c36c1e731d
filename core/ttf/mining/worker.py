"""The miner's own process: `python -m ttf.mining.worker LIFELINE RESULTS PARENT STACKS`.

Two descriptors, the parent's process id, a file for stacks. Answers the requests that come down the
life line, one after another, and keeps imports and index from one to the next. Ends at once when
the life line closes: then the trainer is gone. Never imports torch unless its miner does.
"""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.host import notices
from ttf.machine.memory.allocator import give_back
from ttf.process import lifeline, messages, miner_keeper

if TYPE_CHECKING:
    from ttf.mining.work import Searcher

_FIRST_VICTIM: Final = "1000"


def main(life: int, results: int, parent: int, stacks: str) -> None:
    lifeline.die_with_parent(parent)
    for fd in (life, results):
        os.set_inheritable(fd, False)
    miner_keeper.start((life, results))
    _be_the_first_victim()
    with lifeline.stacks_to(Path(stacks or "/dev/stderr")):
        requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        lifeline.follow(life, requests.put)
        _serve(requests, results)


def _serve(requests: queue.SimpleQueue[dict[str, Any]], results: int) -> None:
    from ttf.mining.work import Searcher

    searcher = Searcher()
    while True:
        message = requests.get()
        number = message["request"]

        def tell(news: Mapping[str, Any], number: int = number) -> None:
            messages.write(results, {"request": number, **news})

        tell(_answer(searcher, message["job"], tell))
        give_back()  # until the next round, which may be long in coming


def _answer(searcher: Searcher, job: dict[str, Any], tell: Any) -> dict[str, Any]:
    """The final message of a request."""
    import traceback

    from ttf.errors import TtfError
    from ttf.mining.job import MiningJob
    from ttf.process.error_document import to_document

    notices.hear(lambda text: tell({"say": text}))
    try:
        report = searcher.do(
            MiningJob.from_json(job),
            lambda text: tell({"say": text}),
            lambda done, total: tell({"progress": [done, total]}),
        )
        return {"report": report.to_json()}
    except Exception as error:  # noqa: BLE001 - told to the trainer, which decides
        if not isinstance(error, TtfError):
            traceback.print_exc()
        return {"error": to_document(error)}


def _be_the_first_victim() -> None:
    """Where memory runs out, the kernel ends this process and not the trainer."""
    if sys.platform == "linux":
        try:
            Path("/proc/self/oom_score_adj").write_text(_FIRST_VICTIM)
        except OSError as error:
            print(f"oom_score_adj stays as it is: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
