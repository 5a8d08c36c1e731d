"""What a study has done in a process of its own: what loads torch, numpy or plugins, so that a crash
of it is a finding."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import TtfError
from ttf.incidents.facts import signal_name
from ttf.process.error_document import from_document

if TYPE_CHECKING:
    from ttf.process.conversation import Tell

TASKS: Final[Mapping[str, tuple[str, str]]] = {
    "survey": ("ttf.tools.bisect.survey", "look at the configuration and the data"),
    "rewrite": ("ttf.tools.bisect.rewrite_data", "copy the data"),
    "resolve": ("ttf.tools.ab.resolve_task", "read the configurations"),
}
"""The module whose function `answer` takes the request, and what it does, for messages."""


class Died(TtfError):
    """The child ended without an answer."""


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a child to `request["do"]`; raises what it raised, or Died where it died."""
    from ttf.supervise.isolated_tasks import Task, run

    work = f"{__name__}:{answer.__name__}"
    ended = run(Task(work=work, request=request, deadline_s=math.inf))
    if ended.answer is not None:
        return dict(ended.answer)
    if ended.error is not None:
        raise from_document(ended.error)
    assert ended.death is not None
    how = f"exit code {ended.death.exit_code}"
    if ended.death.signal is not None:
        how = signal_name(ended.death.signal) or how
    raise Died(
        f"The process that was to {TASKS[request['do']][1]} died ({how}).",
        hint=f"The end of what it said: {ended.stderr[-600:].strip() or 'nothing'}",
    )


def answer(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """The child's end of `ask`."""
    found: dict[str, Any] = importlib.import_module(TASKS[request["do"]][0]).answer(request)
    return found
