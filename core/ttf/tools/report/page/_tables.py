"""Pieces of HTML that every part of the page is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    kind: str = "kv",
) -> str:
    """`head` may be empty. `kind`: "m" for figures, "kv" for keys and long values, which a phone shows stacked."""
    style = f"{kind} three" if len(head) == 3 else kind

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = [' class="r"' if i in numbers else "" for i in range(len(row))]
        return "".join(
            f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(row, marks, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if head else ""
    return f"<div class='o'><table class='{style}'>{top}<tbody>{body}</tbody></table></div>"


def folded(title: str, body: str, *, opened: bool = False) -> str:
    """What is read on demand."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{body}</details>"


def cut(text: str, longest: int) -> str:
    """What comes from outside is not longer than the page can take."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """Without what does something to a reader: control characters, half characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
