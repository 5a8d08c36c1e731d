"""A row of the table of bad inputs: what is wrong, and how the command says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Change = Callable[[Path], object]


def nothing(folder: Path) -> None:
    """The files of the folder are as they should be."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """`change` makes the fault in a folder with good files; `says` is in the message."""

    id: str
    argv: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    change: Change = nothing
    needs: str = ""  # A library.
    slow: bool = False  # It starts a process before the fault is met.


def words(line: str) -> tuple[str, ...]:
    return tuple(line.split())
