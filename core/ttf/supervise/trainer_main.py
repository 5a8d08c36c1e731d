"""The trainer's own process: `python -m ttf.supervise.trainer_main DISPLAY LIFELINE RESULTS PARENT`.

Three descriptors and the parent's process id. Reads its request from the life line, tells what
happens on the results pipe, shows progress on the display (-1: none), and ends at once when the
life line closes. Its exit code is 0 only after its final record was sent.

A SIGTERM or SIGINT that somebody sends to this process itself, not to the supervisor, is taken for
what it asks: once there are steps to save, the run saves them and ends (143 or 130); before that,
and the second time, it is a death like any other, and the supervisor restarts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.errors import ExitCode, TtfError
from ttf.host import notices
from ttf.process import child, conversation, lifeline
from ttf.process.error_document import to_document
from ttf.rundir.request import TrainerEnd, TrainRequest
from ttf.training.supervisor_link import LeaveAsked, SupervisedLink

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary

STACKS = "faulthandler.txt"
_GRACE_S = 0.4


def main(display: int, life: int, results: int, parent: int) -> int:
    lifeline.die_with_parent(parent)
    lifeline.start_keeper(life, child.TREE, grace_s=_GRACE_S, watched_parent=parent)
    link = SupervisedLink(results)
    conversation.follow(life, link.obey)
    request = link.request()
    lifeline.leave_when_stopped(parent)
    lifeline.stacks_to(Path(request.run_dir) / STACKS)
    end = _end(request, link, display)
    link.tell({"end": end})
    return end["error"]["exit_code"] if "error" in end else ExitCode.DONE


def _end(request: TrainRequest, link: SupervisedLink, display: int) -> TrainerEnd:
    """The final record: {"summary"}, {"error"} or {"left"}."""
    try:
        return {"summary": _train(request, link, display)}
    except LeaveAsked:
        return {"left": "memory"}
    except BaseException as error:  # noqa: BLE001 - told to the supervisor, which decides
        if not isinstance(error, TtfError) or os.environ.get("TTF_DEBUG", "0") not in ("", "0"):
            sys.excepthook(type(error), error, error.__traceback__)
        return {"error": to_document(error)}


def _train(request: TrainRequest, link: SupervisedLink, display: int) -> Summary:
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter, make_reporter
    from ttf.training.launch import train_here

    reporter = Reporter()
    if display >= 0:
        # As our own standard error would be, were it not a pipe.
        encoding = sys.stderr.encoding
        stream = os.fdopen(display, "w", encoding=encoding, errors="replace", closefd=False)
        reporter = make_reporter(json=request.json, stream=stream)
        notices.hear(reporter.note)
    return train_here(request, RunFolder(Path(request.run_dir)), reporter, link)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
