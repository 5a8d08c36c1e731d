"""What a person sees while a run goes on: events go to a `Reporter`, on standard error."""

from __future__ import annotations

from ttf.reporting._base import Reporter
from ttf.reporting._choose import make_reporter
from ttf.reporting._live import ConsoleReporter
from ttf.reporting._plain import PlainReporter

__all__ = ["ConsoleReporter", "PlainReporter", "Reporter", "make_reporter"]
