"""`ttf cache`: what lies in the cache, and removing it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.text.numbers import duration, size
from ttf.text.tables import table
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.cache import Entry

_NAMES = ("half", "index", "demo", "objects", "machine")
_EPILOG = """\b
Examples:
  ttf cache list
  ttf cache clear --older-than 30d
  ttf cache clear half index

\b
The cache holds what can be made again. It is the folder TTF_HOME, or ~/.cache/ttf."""


@click.group(epilog=_EPILOG)
def command() -> None:
    """Show what lies in the cache, and remove it."""


@command.command("list")
@options.as_json
def list_(as_json: bool) -> None:
    """List the entries of the cache, the largest first.

    With --json: {"path", "bytes", "entries": [{"kind", "path", "bytes", "made"}]}.
    """
    from ttf.rundir.cache import cache_dir
    from ttf.tools.cache import KINDS, entries

    found, home = entries(), cache_dir()
    total = sum(entry.bytes for entry in found)
    if as_json:
        emit_json({"path": home, "bytes": total, "entries": found})
        return
    if not found:
        say(f"The cache {home} is empty.")
        return
    now = time.time()
    rows = [(e.kind, size(e.bytes), _age(e, now), e.path.name, KINDS[e.kind]) for e in found]
    show(table(rows, ("kind", "size", "made", "name", "what it is")))
    say(f"{size(total)} in {home}")
    next_command("ttf cache clear --older-than 30d")


@command.command("clear")
@click.argument(
    "kinds", nargs=-1, type=options.choice("kind", *_NAMES), metavar=f"[{'|'.join(_NAMES)}]..."
)
@click.option(
    "--older-than",
    "older_than_s",
    type=options.duration(),
    help="Only entries that were made longer ago, e.g. 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.as_json
def clear_(
    kinds: tuple[str, ...], older_than_s: float | None, dry_run: bool, as_json: bool
) -> None:
    """Remove entries of the cache. [default: all kinds but machine]

    A run that needs a removed entry makes it again. Entries that a process is using stay.
    With --json: {"removed": [path], "kept": [{"path", "reason"}], "bytes"}.
    """
    from ttf.tools.cache import REMADE, clear, entries

    now = time.time()
    chosen = [
        entry
        for entry in entries()
        if entry.kind in (kinds or REMADE)
        and (older_than_s is None or now - entry.made > older_than_s)
    ]
    done = [(entry, "") for entry in chosen] if dry_run else list(clear(chosen))
    removed = [entry for entry, reason in done if not reason]
    kept = [(entry, reason) for entry, reason in done if reason]
    freed = sum(entry.bytes for entry in removed)
    if as_json:
        told = [{"path": entry.path, "reason": reason} for entry, reason in kept]
        emit_json({"removed": [e.path for e in removed], "kept": told, "bytes": freed})
        return
    for entry, reason in kept:
        say(f"{entry.path} stays: {reason}")
    verb = "would be removed" if dry_run else "removed"
    count = f"{len(removed)} entr{'y' if len(removed) == 1 else 'ies'}"
    show(f"{count}, {size(freed)}: {verb}")


def _age(entry: Entry, now: float) -> str:
    return f"{duration(max(0.0, now - entry.made))} ago"
