"""The results of a bench for people: a table with coloured ratios, and what was not measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from ttf.text.tables import table
from ttf.text.terminal import Part, Text, echo, is_terminal, line_of
from ttf.tools.bench.results import Finding, Line

_CLEAR_LINE: Final = "\r\x1b[K"
_AHEAD: Final = 1.05
_BEHIND: Final = 0.95
_HEADER: Final = ("", "ours", "peer", "its", "ratio (95%)", "of the ceiling")


def lines_of(lines: Sequence[Line]) -> Iterator[Text]:
    """The table of one bench, and the shapes and notes below it."""
    measured = [line for line in lines if line.value is not None]
    rows = [_row(line, lines) for line in measured]
    head, *texts = table(rows, _HEADER).splitlines()
    yield Part(head, "dim")
    for text, line in zip(texts, measured, strict=True):
        cell = _ratio(line)
        before, _, after = text.partition(cell) if cell else (text, "", "")
        yield line_of(before, _coloured(cell, line.ratio), after)
    yield from _below(lines)


def _row(line: Line, lines: Sequence[Line]) -> tuple[str, ...]:
    first = next(other for other in lines if other.name == line.name) is line
    share = "" if line.ceiling_ratio is None else f"{line.ceiling_ratio:.0%} of {line.ceiling}"
    return (
        line.name if first else "",
        _ours(line) if first else "",
        line.peer or "",
        "" if line.peer_value is None else number(line.peer_value),
        _ratio(line),
        share if first else "",
    )


def _ours(line: Line) -> str:
    assert line.value is not None
    spread = ""
    if line.spread is not None:
        spread = f" ({number(line.spread[0])} to {number(line.spread[1])})"
    return f"{number(line.value)} {line.unit}{spread}"


def _ratio(line: Line) -> str:
    if line.ratio is None or line.ratio_low is None or line.ratio_high is None:
        return ""
    return f"{number(line.ratio)}x ({number(line.ratio_low)} to {number(line.ratio_high)})"


def _coloured(cell: str, ratio: float | None) -> Part:
    if ratio is None:
        return Part(cell)
    if ratio > _AHEAD:
        return Part(cell, "bold green")
    return Part(cell, "yellow" if ratio < _BEHIND else "")


def _below(lines: Sequence[Line]) -> Iterator[Part]:
    for shape, names in _shapes(lines):
        yield Part(f"  {', '.join(names)}: {shape}", "dim")
    shown = set()
    for line in lines:
        if line.note and (line.peer, line.note) not in shown:
            shown.add((line.peer, line.note))
            text = f"  {line.peer}: {line.note}" if line.peer else f"  {line.note}"
            yield Part(text, "dim") if line.value is not None else _warning(text)


def _warning(text: str) -> Part:
    return Part(text, "red" if ": it ended with " in text else "yellow")


def _shapes(lines: Sequence[Line]) -> list[tuple[str, list[str]]]:
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.shape and line.name not in names.setdefault(line.shape, []):
            names[line.shape].append(line.name)
    return list(names.items())


def finding_lines(finding: Finding) -> Iterator[Text]:
    who = f" during the turn of {finding.peer}" if finding.peer else ""
    yield Part(f"[x] {finding.name} did not finish{who}: {finding.what}", "bold red")
    yield from (f"    - {text}" for text in finding.evidence[:6])


def number(value: float) -> str:
    """Three significant digits.

    >>> [number(v) for v in (0.0123, 1.994, 18.31, 133.4, 21499.0)]
    ['0.0123', '1.99', '18.3', '133', '21,499']
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class BenchProgress:
    """One line on a terminal that changes in place; in a pipe a line when a bench begins."""

    def __init__(self) -> None:
        self._live = is_terminal(sys.stderr)
        self._bench = ""
        self._shown = ""

    def __call__(self, bench: str, at: str, done: int, total: int) -> None:
        if not self._live:
            if bench != self._bench:
                echo(f"... {bench}", err=True)
        else:
            share = f" {100 * done // total:3d}%" if total else ""
            text = f"... {bench}{share}  {at}"[:100]
            if text != self._shown:
                echo(text, err=True, begin=_CLEAR_LINE, end="")
                self._shown = text
        self._bench = bench

    def clear(self) -> None:
        """Before other output."""
        if self._live and self._shown:
            echo(err=True, begin=_CLEAR_LINE, end="")
            self._shown = ""
