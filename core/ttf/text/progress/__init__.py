"""Progress of a run for people: events go to a `Reporter`, on standard error."""

from __future__ import annotations

from ttf.text.progress._live import ConsoleReporter
from ttf.text.progress.reporter import PlainReporter, Reporter, make_reporter, with_log

__all__ = ["ConsoleReporter", "PlainReporter", "Reporter", "make_reporter", "with_log"]
