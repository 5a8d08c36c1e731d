"""Installed plugins, from metadata alone: nothing is imported here.

A plugin is an entry point `<kind>.<name>` in the group `ttf.v<API>` of some distribution. A bare
name that ttf itself has always means ttf's plugin; any other name that several distributions claim
is chosen as `distribution:name`.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Final

from ttf.contracts import KINDS, Kind
from ttf.errors import ConfigError, PluginUnavailable, UnknownName
from ttf.text.terminal import one_line

API: Final = 1
GROUP: Final = f"ttf.v{API}"
OURS: Final = "twotower"
_GROUPS: Final = re.compile(r"ttf\.v(\d+)")
_KINDS: Final = {str(kind): kind for kind in KINDS}


@dataclass(frozen=True, kw_only=True)
class Declared:
    """An entry point in a ttf group, of any API and kind."""

    kind: str
    name: str
    distribution: str
    version: str
    api: int
    entry_point: EntryPoint

    @property
    def mismatch(self) -> str:
        """Which side is too old, and the command to type; empty if the API matches."""
        if self.api == API:
            return ""
        age, mend = ("older", self.distribution) if self.api < API else ("newer", OURS)
        return (
            f"made for the {age} plugin API {self.api}, but this ttf has the plugin API {API}: "
            f"pip install --upgrade {mend}"
        )

    @property
    def switched_off(self) -> bool:
        return normal(self.distribution) in disabled_distributions()

    def owned_by(self, owner: str) -> bool:
        # `owner` "" matches any distribution; spelling variants match too.
        return not owner or normal(owner) == normal(self.distribution)


@dataclass(frozen=True, kw_only=True)
class PluginInfo(Declared):
    """An installed plugin that can be used: of this API, of a known kind."""

    kind: Kind

    @property
    def reference(self) -> str:
        return f"{self.kind}.{self.name}"

    @property
    def ours(self) -> bool:
        return normal(self.distribution) == OURS

    @property
    def editable(self) -> bool:
        """True if installed from its source folder: reinstalling it repairs nothing."""
        dist = self.entry_point.dist
        return dist is not None and '"editable": true' in (dist.read_text("direct_url.json") or "")


def normal(distribution: str) -> str:
    """A distribution's name as packaging tools compare it.

    >>> normal("TTF_Miner.Foo")
    'ttf-miner-foo'
    """
    return re.sub(r"[-_.]+", "-", distribution).lower()


def disabled_distributions() -> frozenset[str]:
    names = os.environ.get("TTF_DISABLE_PLUGINS", "").split(",")
    return frozenset(normal(n.strip()) for n in names if n.strip())


def declared() -> Iterator[Declared]:
    """Every entry point of every distribution in a group `ttf.v<number>`."""
    for dist in distributions():
        text = dist.read_text("entry_points.txt")
        if text and "ttf.v" in text:  # skips reading the metadata of other distributions
            yield from _declared_by(dist)


def _declared_by(dist: Distribution) -> Iterator[Declared]:
    # A package's metadata is of others: its names stand in messages, choices and documents.
    name, version = one_line(dist.name or ""), one_line(dist.version)
    for entry in dist.entry_points:
        group = _GROUPS.fullmatch(entry.group)
        if group is None:
            continue
        kind, _, plugin = entry.name.partition(".")
        yield Declared(
            kind=kind,
            name=one_line(plugin),
            distribution=name,
            version=version,
            api=int(group[1]),
            entry_point=entry,
        )


@functools.cache
def installed(disabled: frozenset[str] | None = None) -> tuple[PluginInfo, ...]:
    """Every usable plugin, sorted."""
    blocked = disabled_distributions() if disabled is None else disabled
    found = [
        PluginInfo(**{**vars(d), "kind": _KINDS[d.kind]})
        for d in declared()
        if d.api == API and d.kind in _KINDS and d.name and normal(d.distribution) not in blocked
    ]
    unique = {(p.kind, p.name, normal(p.distribution)): p for p in found}
    return tuple(sorted(unique.values(), key=lambda p: (p.kind, p.name, p.distribution)))


def of_kind(kind: Kind) -> list[PluginInfo]:
    return [p for p in installed() if p.kind == kind]


def ours(kind: Kind) -> list[str]:
    # The names of ttf's own plugins: `auto` considers only these, so that installing a package
    # changes no run that does not name it.
    return sorted(p.name for p in of_kind(kind) if p.ours)


def claimed_twice(kind: Kind) -> dict[str, list[str]]:
    """Names that several distributions claim, with those distributions."""
    claims: dict[str, list[str]] = {}
    for plugin in of_kind(kind):
        claims.setdefault(plugin.name, []).append(plugin.distribution)
    return {name: owners for name, owners in claims.items() if len(owners) > 1}


def choices(kind: Kind) -> list[str]:
    """Names that the user can type for a kind."""
    return sorted(choice_of(p) for p in of_kind(kind))


def choice_of(info: PluginInfo) -> str:
    """The name to type: `distribution:name` if the name alone is ambiguous."""
    alone = info.ours or info.name not in claimed_twice(info.kind)
    return info.name if alone else f"{info.distribution}:{info.name}"


def find(kind: Kind, name: str) -> PluginInfo:
    """By `name` or `distribution:name`; raises UnknownName with the closest match, and ConfigError
    if the name alone is ambiguous."""
    owner, _, bare = name.rpartition(":")
    matches = [p for p in of_kind(kind) if p.name == bare and p.owned_by(owner)]
    own = [p for p in matches if p.ours]
    if own:
        return own[0]
    if not matches:
        _raise_if_not_offered(kind, owner, bare)
        raise UnknownName(kind, name, choices(kind))
    if len(matches) > 1:
        named = [f"{p.distribution}:{p.name}" for p in matches]
        raise ConfigError(
            f"{len(named)} distributions offer the {kind} {bare!r}: "
            f"{', '.join(p.distribution for p in matches)}.",
            hint=(
                f"Use the full name, {' or '.join(named)}, or disable one distribution: "
                f"TTF_DISABLE_PLUGINS={matches[-1].distribution}."
            ),
        )
    return matches[0]


def _raise_if_not_offered(kind: Kind, owner: str, bare: str) -> None:
    # A plugin that is installed but not offered: says why, before it is imported.
    for one in declared():
        if (one.kind, one.name) != (kind, bare) or not one.owned_by(owner):
            continue
        if one.switched_off:
            raise PluginUnavailable(
                f"The {kind} {bare!r} of the distribution {one.distribution} is disabled by "
                "TTF_DISABLE_PLUGINS.",
                hint=f"Remove {one.distribution} from TTF_DISABLE_PLUGINS.",
            )
        if one.mismatch:
            what, _, mend = one.mismatch.partition(": ")
            raise PluginUnavailable(
                f"The {kind} {bare!r} of the distribution {one.distribution} {one.version} was "
                f"{what}.",
                hint=mend,
            )
