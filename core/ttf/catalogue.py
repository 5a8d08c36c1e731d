"""Every plugin that is installed, usable or not, from metadata alone: what `ttf plugins list` says.

`host` offers what can be chosen; this also names what was switched off, was made for another
plugin API, or declares a kind nobody knows, each with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

from ttf import host
from ttf.contracts import KINDS
from ttf.errors import suggestion


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list; `available` None means: not known without loading it."""

    kind: str
    name: str
    distribution: str
    version: str
    api: int
    available: bool | None
    reason: str


def entries() -> list[Entry]:
    """Sorted by kind and name; imports no plugin."""
    found = {
        (e.kind, e.name, e.distribution, e.api): e
        for dist in distributions()
        for entry in dist.entry_points
        for e in _entry(dist, entry)
    }
    return sorted(found.values(), key=lambda e: (_rank(e.kind), e.kind, e.name, e.distribution))


def _entry(dist: Distribution, entry: EntryPoint) -> Iterator[Entry]:
    group = re.fullmatch(r"ttf\.v(\d+)", entry.group)
    if group is None:
        return
    kind, _, name = entry.name.partition(".")
    api = int(group[1])
    available, reason = _state(dist.name, kind, name, api)
    yield Entry(
        kind=kind,
        name=name,
        distribution=dist.name,
        version=dist.version,
        api=api,
        available=available,
        reason=reason,
    )


def _state(distribution: str, kind: str, name: str, api: int) -> tuple[bool | None, str]:
    if api != host.API:
        age, mend = ("older", distribution) if api < host.API else ("newer", host.OURS)
        return False, (
            f"made for the {age} plugin API {api}, this ttf has {host.API}: "
            f"pip install --upgrade {mend}"
        )
    if distribution.lower() in host.disabled_distributions():
        return False, "switched off by TTF_DISABLE_PLUGINS"
    known = {str(k): k for k in KINDS}
    if kind not in known or not name:
        return False, f"its entry point names no kind of plugin.{suggestion(kind, known)}"
    owners = host.claimed_twice(known[kind]).get(name, [])
    if owners:
        return None, f"claimed by {' and '.join(owners)}: choose {distribution}:{name}"
    return None, ""


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
