"""What a host tells before it works for node 0, and what node 0 makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttf.errors import ConfigError
from ttf.tools.tickets import facts


@dataclass(frozen=True, kw_only=True)
class Own:
    """Of this host."""

    facts: Mapping[str, str] = field(default_factory=facts.own)
    settings: Mapping[str, Any]
    data: Mapping[str, str]

    @property
    def message(self) -> dict[str, Any]:
        return {"facts": dict(self.facts), "settings": dict(self.settings), "data": dict(self.data)}

    def compare(self, hello: Mapping[str, Any]) -> tuple[str, str]:
        """Of node 0, with another host: its name and what is only stated. Raises ConfigError and
        BadData."""
        try:
            theirs = facts.read(hello.get("facts"))
        except ValueError as error:
            raise ConfigError(f"A host that wants to join is refused: {error}.") from None
        facts.refuse_other_versions(self.facts, theirs)
        facts.refuse_other_settings(self.settings, hello.get("settings"), theirs["host"])
        facts.refuse_other_data(self.data, hello.get("data"), theirs["host"])
        return theirs["host"], facts.stated(self.facts, theirs)
