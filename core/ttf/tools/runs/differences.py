"""Where runs differ: a row for each key that is not the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ttf.tools.runs.facts import SECTIONS, RunFacts

_MISSING: Final = "-"


@dataclass(frozen=True, kw_only=True)
class Difference:
    section: str
    key: str
    values: tuple[Any, ...]  # one for each run; None: the run does not have it

    @property
    def change(self) -> float | None:
        """The second number minus the first, of two runs."""
        first, *others = self.values
        if len(others) != 1 or not all(map(_is_number, self.values)):
            return None
        return float(others[0]) - float(first)


def differences(runs: Sequence[RunFacts]) -> list[Difference]:
    return [
        found
        for section in SECTIONS
        for found in _of_section(section, [run.sections[section] for run in runs])
    ]


def _of_section(section: str, tables: Sequence[Any]) -> list[Difference]:
    keys = list(dict.fromkeys(key for table in tables for key in table))
    rows = [
        Difference(section=section, key=key, values=tuple(table.get(key) for table in tables))
        for key in keys
    ]
    return [row for row in rows if len(set(map(repr, row.values))) > 1]


def cell(value: Any) -> str:
    """
    >>> [cell(value) for value in (None, 0.41234567, 12, "faiss", True)]
    ['-', '0.4123', '12', 'faiss', 'true']
    """
    if value is None:
        return _MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def changed(row: Difference) -> str:
    """'+0.0213', or '' if it is no number."""
    return "" if row.change is None else f"{row.change:+.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
