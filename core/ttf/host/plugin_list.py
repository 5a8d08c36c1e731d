"""Every installed plugin, usable or not, from metadata alone: for `ttf plugins list`.

`installed` offers what can be chosen; this also lists plugins that are switched off, made for
another plugin API, or of an unknown kind, each with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttf.contracts import KINDS
from ttf.errors import suggestion
from ttf.host import installed
from ttf.host.installed import Declared


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list; `available` None: unknown without loading it."""

    kind: str
    name: str
    distribution: str
    version: str
    api: int
    available: bool | None
    reason: str


def entries() -> list[Entry]:
    # Sorted by kind and name; imports no plugin.
    found = {(d.kind, d.name, d.distribution, d.api): d for d in installed.declared()}
    listed = [_entry(one) for one in found.values()]
    return sorted(listed, key=lambda e: (_rank(e.kind), e.kind, e.name, e.distribution))


def _entry(one: Declared) -> Entry:
    available, reason = _state(one)
    told = {name: value for name, value in vars(one).items() if name != "entry_point"}
    return Entry(**told, available=available, reason=reason)


def _state(one: Declared) -> tuple[bool | None, str]:
    if one.mismatch:
        return False, one.mismatch
    if one.switched_off:
        return False, "disabled by TTF_DISABLE_PLUGINS"
    known = {str(k): k for k in KINDS}
    if one.kind not in known or not one.name:
        return False, (
            f"the entry point does not begin with a kind of plugin.{suggestion(one.kind, known)}"
        )
    owners = installed.claimed_twice(known[one.kind]).get(one.name, [])
    if not owners:
        return None, ""
    typed = f"{one.distribution}:{one.name}"
    bare = (
        f"; without a prefix, {one.name} means this one"
        if installed.normal(one.distribution) == installed.OURS
        else ""
    )
    return None, f"{' and '.join(owners)} offer the same name: choose {typed}{bare}"


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
