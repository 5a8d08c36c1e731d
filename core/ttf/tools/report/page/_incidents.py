"""The page's incidents: a table of all, and a card of each with its evidence."""

from __future__ import annotations

import time
from html import escape
from typing import Any, Final

from ttf.rundir.documents import RemedyEntry
from ttf.tools.report.page._read import RunFiles, ShownIncident
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
    last = [found["id"] for found in told[-_OPEN:]]
    more = "".join(_card(found, opened=found["id"] in last) for found in told)
    return section("Incidents", before + table(head, map(_row, shown), kind="m") + more)


def _row(found: ShownIncident) -> tuple[str, ...]:
    step, phase = found.get("step"), found.get("phase") or ""
    return (
        cut(found["id"], 80),
        cut(found["class"], 80),
        cut(found.get("process", ""), 80),
        cut(phase if step is None else f"{phase}, step {step}", 80),
        cut(found.get("remedy") or "nothing changed", 200),
    )


def _card(found: ShownIncident, *, opened: bool) -> str:
    number, name = found["id"], found["class"]
    title = f"{number} {name}{_when(found)}"
    body = [f"<p>{_text(found.get('explanation'))}</p>" if found.get("explanation") else ""]
    if found.get("certain") is False:
        body.append("<p class='q'>The evidence says what happened, not for sure why.</p>")
    body.append(_evidence(found))
    body.append(_remedies(found))
    if lost := found.get("lost_steps"):
        body.append(f"<p>Steps that had to be done again: {_text(lost)}.</p>")
    words = printable(found["stderr"]).strip()
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


def _when(found: ShownIncident) -> str:
    moment = found.get("time", 0)
    if not 0 < moment < 1e11:
        return ""
    return time.strftime(" - %Y-%m-%d %H:%M:%S", time.localtime(moment))


def _evidence(found: ShownIncident) -> str:
    items = "".join(
        f"<li><b>{_text(e.get('source'))}</b>: <code>{_text(e.get('text'))}</code></li>"
        for e in found.get("evidence", [])[:_MOST_EVIDENCE]
    )
    return f"<p>Evidence:</p><ul>{items}</ul>" if items else ""


def _remedies(found: ShownIncident) -> str:
    done = found.get("remedy")
    ways = found.get("remedies", [])
    parts = [f"<p>Done about it: {_text(done)}.</p>" if done else ""]
    if ways:
        items = "".join(f"<li>{_way(way)}</li>" for way in ways[:6])
        avoids = "may avoid" if found.get("certain") is False else "avoids"
        parts.append(f"<p>What {avoids} it:</p><ul>{items}</ul>")
    elif not done:
        parts.append("<p>No setting is known that avoids it.</p>")
    return "".join(parts)


def _way(remedy: RemedyEntry) -> str:
    """A command line as such; advice as the sentence it is."""
    told = _text(remedy.get("text"))
    return f"<code>{told}</code>" if remedy.get("set") else told


def _text(value: Any) -> str:
    return escape(cut(printable(str(value)), _LONGEST))
