"""Small HTML for notebooks (`_repr_html_`): tables and text, every value escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ttf.text.terminal import visible


def escaped(text: object) -> str:
    return html.escape(visible(str(text)))


def facts_table(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A title, and a row per fact."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escaped(label)}</th>'
        f'<td style="text-align:left">{escaped(value)}</td></tr>'
        for label, value in facts
    )
    return f"<div><b>{escaped(title)}</b><table>{rows}</table></div>"


def columns_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A title, and a row per sequence."""
    head = "".join(f"<th>{escaped(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<div><b>{escaped(title)}</b><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def preformatted(text: str) -> str:
    return f'<pre style="line-height:1.2">{escaped(text)}</pre>'
