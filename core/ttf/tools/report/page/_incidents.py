"""The page's incidents: a table of all, and a card of each with its evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from ttf.rundir.typed_json import is_number
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._tables import cut, folded, printable, section, table

MOST_ROWS: Final = 100
_OPEN: Final = 3
"""Cards that are unfolded: the last ones."""
_MOST_EVIDENCE: Final = 12
_LONGEST: Final = 400


def incidents(run: RunFiles, cards: int) -> str:
    """`cards`: of how many, the last ones, everything is told."""
    if not run.incidents:
        return ""
    shown = run.incidents[-MOST_ROWS:]
    left_out = len(run.incidents) - len(shown)
    before = f"<p>{left_out} incidents before these are in the folder.</p>" if left_out else ""
    head = ("id", "class", "process", "where", "what was done about it")
    told = run.incidents[-cards:] if cards else []
    last = [str(found.get("id")) for found in told[-_OPEN:]]
    more = "".join(_card(found, opened=str(found.get("id")) in last) for found in told)
    return section("Incidents", before + table(head, map(_row, shown), kind="m") + more)


def _row(found: Mapping[str, Any]) -> tuple[str, ...]:
    step, phase = found.get("step"), found.get("phase")
    where = f"{phase or ''}, step {step}" if is_number(step) else str(phase or "")
    return (
        *(cut(str(found.get(key) or ""), 80) for key in ("id", "class", "process")),
        cut(where, 80),
        cut(str(found.get("remedy") or "nothing changed"), 200),
    )


def _card(found: Mapping[str, Any], *, opened: bool) -> str:
    number, name = str(found.get("id")), str(found.get("class"))
    title = f"{number} {name}{_when(found)}"
    body = [f"<p>{_text(found.get('explanation'))}</p>" if found.get("explanation") else ""]
    if found.get("certain") is False:
        body.append("<p class='q'>The evidence says what happened, not for sure why.</p>")
    body.append(_evidence(found))
    body.append(_remedies(found))
    if lost := found.get("lost_steps"):
        body.append(f"<p>Steps that had to be done again: {_text(lost)}.</p>")
    words = printable(str(found.get("stderr") or "")).strip()
    if words:
        body.append(f"<p>The end of what it wrote on standard error:</p><pre>{escape(words)}</pre>")
    body.append(
        f"<p class='q'>More: incidents/{_text(number)}/ in the folder, and "
        f"<code>ttf explain {_text(name)}</code>.</p>"
    )
    return (
        f"<div class='i' id='incident-{escape(number)}'>{folded(title, ''.join(body), opened=opened)}"
        "</div>"
    )


def _when(found: Mapping[str, Any]) -> str:
    moment = found.get("time")
    if not is_number(moment) or not 0 < moment < 1e11:
        return ""
    return time.strftime(" - %Y-%m-%d %H:%M:%S", time.localtime(moment))


def _evidence(found: Mapping[str, Any]) -> str:
    listed = found.get("evidence")
    rows = [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []
    items = "".join(
        f"<li><b>{_text(e.get('source'))}</b>: <code>{_text(e.get('text'))}</code></li>"
        for e in rows[:_MOST_EVIDENCE]
    )
    return f"<p>Evidence:</p><ul>{items}</ul>" if items else ""


def _remedies(found: Mapping[str, Any]) -> str:
    done = found.get("remedy")
    listed = found.get("remedies")
    ways = [r for r in listed if isinstance(r, Mapping)] if isinstance(listed, list) else []
    parts = [f"<p>Done about it: {_text(done)}.</p>" if done else ""]
    if ways:
        items = "".join(f"<li>{_way(way)}</li>" for way in ways[:6])
        avoids = "may avoid" if found.get("certain") is False else "avoids"
        parts.append(f"<p>What {avoids} it:</p><ul>{items}</ul>")
    elif not done:
        parts.append("<p>No setting is known that avoids it.</p>")
    return "".join(parts)


def _way(remedy: Mapping[str, Any]) -> str:
    """A command line as such; advice as the sentence it is."""
    told = _text(remedy.get("text"))
    return f"<code>{told}</code>" if remedy.get("set") else told


def _text(value: Any) -> str:
    return escape(cut(printable(str(value)), _LONGEST))
