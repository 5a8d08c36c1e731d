"""A zip to send: report, evidence, reproducers, and nothing that identifies the user."""

from __future__ import annotations

from ttf.tools.report.bundle._zip import MARK, Bundle, write_bundle

__all__ = ["MARK", "Bundle", "write_bundle"]
