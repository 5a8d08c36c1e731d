"""Throw-away processes of a study: `python -m ttf.tools.studies.child PARENT`, a request on standard input.

What loads torch, numpy or plugins happens here, so that a crash of it is a finding. Answers with one
JSON document on standard output. With words behind PARENT it is that `ttf` command, to its end, and
only ends with its parent.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from ttf.errors import TtfError
from ttf.incidents.case import signal_name
from ttf.process.error_document import from_document, to_document

MODULE: Final = "ttf.tools.studies.child"
TASKS: Final[Mapping[str, tuple[str, str]]] = {
    "survey": ("ttf.tools.bisect.survey", "look at the configuration and the data"),
    "rewrite": ("ttf.tools.bisect.rewrite_data", "copy the data"),
    "resolve": ("ttf.tools.ab.resolve_task", "read the configurations"),
}
"""The module whose function `answer` takes the request, and what it does, for messages."""


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a child to `request["do"]`; raises what it raised, or Died where it died."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, str(os.getpid())],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    answer = _last_document(done.stdout)
    if answer is None:
        how = f"exit code {done.returncode}"
        if done.returncode < 0:
            how = signal_name(-done.returncode) or how
        raise Died(
            f"The process that was to {TASKS[request['do']][1]} died ({how}).",
            hint=f"The end of what it said: {done.stderr[-600:].strip() or 'nothing'}",
        )
    if "error" in answer:
        raise from_document(answer["error"])
    found: dict[str, Any] = answer["answer"]
    return found


class Died(TtfError):
    """The child ended without an answer."""


def _last_document(text: str) -> dict[str, Any] | None:
    """Plugins may print what they like before."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def main(parent: int, words: list[str]) -> int:
    from ttf.process import lifeline

    lifeline.die_with_parent(parent)
    if words:
        sys.argv[1:] = words
        runpy.run_module("ttf", run_name="__main__", alter_sys=True)  # as `python -m ttf` does
    try:
        request = json.load(sys.stdin)
        module = importlib.import_module(TASKS[request["do"]][0])
        answer = {"answer": module.answer(request)}
    except BaseException as error:  # noqa: BLE001 - raised again on the other side
        answer = {"error": to_document(error)}
    print("\n" + json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
