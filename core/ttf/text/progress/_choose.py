"""Which reporter fits where standard error goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from ttf.text.progress._base import Reporter
from ttf.text.progress._live import ConsoleReporter
from ttf.text.progress._plain import PlainReporter


def make_reporter(
    json: bool,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> Reporter:
    """A live display on a terminal, plain lines elsewhere or with NO_PROGRESS or TERM=dumb.

    `json`: the run's folder stands in the document on standard output, so that `finished` says
    nothing but notes. Progress goes to standard error in any case.
    """
    out = stream if stream is not None else sys.stderr
    if out is None:  # closed before the process began, as by 2>&-
        return Reporter()
    env = os.environ if environ is None else environ
    if not out.isatty() or env.get("NO_PROGRESS") or env.get("TERM", "") in ("", "dumb"):
        return PlainReporter(out, summary=not json)
    return ConsoleReporter(out, colour=not env.get("NO_COLOR"), summary=not json)
