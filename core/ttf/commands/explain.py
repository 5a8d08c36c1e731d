"""`ttf explain`: what an incident class means, how it is known, and what to do about it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.host import distribution
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import emit_json, is_terminal, next_command, say, show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ttf.tools.explain.find_incident import Incident
    from ttf.tools.explain.pages import Page


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completes a class or a path."""
    from click.shell_completion import CompletionItem

    from ttf.tools.explain import pages

    found = [CompletionItem(name) for name in pages.names() if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


_EPILOG = """\b
Examples:
  ttf explain                               all classes, one line each
  ttf explain segfault                      one page
  ttf explain 137                           the classes with this exit code
  ttf explain SIGBUS                        the classes with this signal
  ttf explain runs/run-001/incidents/002    this incident, and the page of its class
  ttf explain runs/run-001                  the newest incident of a run
  ttf explain oom-kill > oom-kill.md        Markdown, if the output is not a terminal
  ttf explain min_yield                     a key of the configuration, as ttf config explain does
"""


@click.command(epilog=_EPILOG)
@click.argument(
    "what", shell_complete=_complete, required=False, metavar="[CLASS|EXIT CODE|SIGNAL|INCIDENT]"
)
@options.as_json
def command(what: str | None, as_json: bool) -> None:
    """Explain why a process crashed. Without an argument, list all incident classes.

    The page of a class has the symptom, its meaning, how ttf recognises it, what it is often
    mistaken for, what to do (in a run, in your own script, under ttf guard), and the sources.
    """
    from ttf.tools.explain import pages

    if what is None:
        _list(list(pages.names()), as_json)
        return
    if what in pages.names():
        _show_page(pages.page(what), None, as_json)
        return
    path = Path(what)
    classes = None if path.exists() else pages.classes_of_ending(what)
    if classes is not None:
        _list(classes, as_json, ending=what)
    elif path.exists() or os.sep in what:
        _show_incident(path, as_json)
    else:
        _show_key(what, as_json)


def _show_key(what: str, as_json: bool) -> None:
    """For who looks for a key of the configuration here."""
    import difflib

    from ttf.tools.explain import pages

    if distribution.NAME == distribution.CRASH_SIDE:  # it knows no keys
        pages.page(what)  # raises, with the closest class
    from ttf.commands.config import print_sections
    from ttf.config import reference

    try:
        found = reference.find(what)
    except reference.UnknownKey as error:
        if not error.closest or difflib.get_close_matches(what, pages.names()):
            pages.page(what)  # raises, with the closest class
        raise
    print_sections(found, as_json)
    next_command(f"ttf config explain {quoted(what)}")


def _list(classes: list[str], as_json: bool, *, ending: str = "") -> None:
    from ttf.tools.explain import pages

    found = [(name, pages.page(name).summary) for name in classes]
    if as_json:
        of = {"ending": ending} if ending else {}
        emit_json({**of, "classes": [{"class": n, "summary": s} for n, s in found]})
    else:
        if ending:
            say(
                f"A process that ended with {ending} can have one of these classes. The evidence "
                "decides which."
            )
        show(_table(found))
    next_command(f"ttf explain {classes[0]}" if ending else "ttf explain segfault")


def _table(found: list[tuple[str, str]]) -> str:
    """Wraps lines on a terminal. A pipe gets one line per class."""
    import shutil
    import textwrap

    if not is_terminal(sys.stdout):
        return table(found)
    first = 2 + max(len(name) for name, _ in found)
    room = max(20, shutil.get_terminal_size().columns - first - 1)
    rows = [
        (name if number == 0 else "", line)
        for name, summary in found
        for number, line in enumerate(textwrap.wrap(summary, room, break_on_hyphens=False))
    ]
    return table(rows)


def _show_incident(path: Path, as_json: bool) -> None:
    from ttf.tools.explain import find_incident, pages

    incident = find_incident.find(path)
    page = pages.page(incident.name) if incident.name in pages.names() else pages.page("unknown")
    _show_page(page, incident, as_json)
    if incident.others:
        say(f"This is the newest incident; {incident.others} more are in {incident.folder.parent}.")
    words = incident.folder / "stderr.txt"
    if not (words.is_file() and words.lstat().st_size):
        said = incident.folder / "stdout.txt"
        words = said if said.is_file() else words
    next_command(f"less {quoted(words)}")


def _show_page(page: Page, incident: Incident | None, as_json: bool) -> None:
    from ttf.tools.explain import find_incident

    if as_json:
        told = {"incident": incident.document, "folder": incident.folder} if incident else {}
        of_page = {"summary": page.summary, "sections": page.sections, "markdown": page.markdown}
        emit_json({**told, "class": page.name, **of_page})
        return
    text = "" if incident is None else f"{find_incident.markdown(incident)}\n"
    _print(text + page.markdown)


def _print(markdown: str) -> None:
    if not is_terminal(sys.stdout):
        show(markdown.rstrip("\n"))
        return
    import shutil

    from ttf.tools.explain.markdown import rendered

    show(rendered(markdown, shutil.get_terminal_size().columns - 1))
