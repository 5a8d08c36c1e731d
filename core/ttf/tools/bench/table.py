"""The results of a bench for people: a table with coloured ratios, and what was not measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from ttf.text.tables import table
from ttf.tools.bench.results import Finding, Line

_AHEAD: Final = 1.05
_BEHIND: Final = 0.95
_HEADER: Final = ("", "ours", "peer", "its", "ratio (95%)", "of the ceiling")


def lines_of(lines: Sequence[Line]) -> Iterator[str]:
    """The table of one bench, and the shapes and notes below it."""
    measured = [line for line in lines if line.value is not None]
    rows = [_row(line, lines) for line in measured]
    head, *texts = table(rows, _HEADER).splitlines()
    yield click.style(head, dim=True)
    for text, line in zip(texts, measured, strict=True):
        cell = _ratio(line)
        yield text.replace(cell, _coloured(cell, line.ratio)) if cell else text
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


def _coloured(cell: str, ratio: float | None) -> str:
    if ratio is None:
        return cell
    if ratio > _AHEAD:
        return click.style(cell, fg="green", bold=True)
    return click.style(cell, fg="yellow") if ratio < _BEHIND else cell


def _below(lines: Sequence[Line]) -> Iterator[str]:
    for shape, names in _shapes(lines):
        yield click.style(f"  {', '.join(names)}: {shape}", dim=True)
    shown = set()
    for line in lines:
        if line.note and (line.peer, line.note) not in shown:
            shown.add((line.peer, line.note))
            text = f"  {line.peer}: {line.note}" if line.peer else f"  {line.note}"
            yield click.style(text, dim=True) if line.value is not None else _warning(text)


def _warning(text: str) -> str:
    return click.style(text, fg="red" if ": it ended with " in text else "yellow")


def _shapes(lines: Sequence[Line]) -> list[tuple[str, list[str]]]:
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.shape and line.name not in names.setdefault(line.shape, []):
            names[line.shape].append(line.name)
    return list(names.items())


def finding_lines(finding: Finding) -> Iterator[str]:
    who = f" while {finding.peer} had its turn" if finding.peer else ""
    yield click.style(f"[x] {finding.name} did not end{who}: {finding.what}", fg="red", bold=True)
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
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._bench = ""
        self._shown = ""

    def __call__(self, bench: str, at: str, done: int, total: int) -> None:
        if not self._live:
            if bench != self._bench:
                click.echo(f"... {bench}", err=True)
        else:
            share = f" {100 * done // total:3d}%" if total else ""
            text = f"... {bench}{share}  {at}"[:100]
            if text != self._shown:
                click.echo(f"\r\x1b[K{text}", err=True, nl=False)
                self._shown = text
        self._bench = bench

    def clear(self) -> None:
        """Before other output."""
        if self._live and self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = ""
