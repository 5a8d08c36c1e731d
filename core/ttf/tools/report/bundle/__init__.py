"""A zip for somebody else: report, evidence, reproducers, and nothing about who you are."""

from __future__ import annotations

from ttf.tools.report.bundle._zip import Bundle, write_bundle

__all__ = ["Bundle", "write_bundle"]
