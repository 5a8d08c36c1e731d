"""Child processes of a study for work with torch, numpy or plugins: a crash there is a finding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ttf.errors import TtfError
from ttf.incidents.facts import signal_name
from ttf.process.error_document import from_document


class Died(TtfError):
    """The child ended without an answer."""


def ask(work: str, request: Mapping[str, Any], *, to: str) -> Mapping[str, Any]:
    """The answer of a child that does `work` ("module:function").

    Raises the error of the child, or Died. `to` says what the child does, for messages.
    """
    from ttf.supervise.isolated_tasks import Task, run

    ended = run(Task(work=work, request=request, deadline_s=math.inf))
    if ended.answer is not None:
        return ended.answer
    if ended.error is not None:
        raise from_document(ended.error)
    assert ended.death is not None
    how = f"exit code {ended.death.exit_code}"
    if ended.death.signal is not None:
        how = signal_name(ended.death.signal) or how
    raise Died(
        f"The process that should {to} crashed ({how}).",
        hint=f"The end of its standard error: {ended.stderr[-600:].strip() or 'empty'}",
    )
