"""What lies in the cache of ttf, and how it is removed."""

from __future__ import annotations

from ttf.tools.cache.entries import KINDS, REMADE, Entry, clear, entries

__all__ = ["KINDS", "REMADE", "Entry", "clear", "entries"]
