"""Folders and files from somebody who means harm, by what they are."""

from __future__ import annotations

from tests.kit.hostile import caches, runs, stores, studies
from tests.kit.hostile.table import SECRET, TABLE_OF_ALL, Hostile, look, prepare, written_texts

__all__ = [
    "SECRET",
    "TABLE_OF_ALL",
    "Hostile",
    "caches",
    "look",
    "prepare",
    "runs",
    "stores",
    "studies",
    "written_texts",
]
