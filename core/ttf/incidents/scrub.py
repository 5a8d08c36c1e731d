"""Removes secrets of the environment from files that users send to others."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

_NAMES: Final = re.compile(
    r"TOKEN|SECRET|PASSW|(?:API|ACCESS|PRIVATE)_?KEY|CREDENTIAL|AUTH(?!OR)", re.IGNORECASE
)
_SHORTEST: Final = 8  # shorter values are common words like 'yes' and would be removed everywhere


def is_secret_name(name: str) -> bool:
    return _NAMES.search(name) is not None


class Scrubber:
    """Replaces the values of environment variables with secret names."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._secrets = sorted(
            (
                (value, name)
                for name, value in environment.items()
                if is_secret_name(name) and len(value) >= _SHORTEST
            ),
            key=lambda secret: -len(secret[0]),
        )

    @property
    def secrets(self) -> tuple[tuple[str, str], ...]:
        """Pairs (value, variable), the longest values first."""
        return tuple(self._secrets)

    def text(self, text: str) -> str:
        for value, name in self._secrets:
            text = text.replace(value, f"[{name}]")
        return text

    def value(self, value: Any) -> Any:
        """Returns the same JSON value with scrubbed strings."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.value(inner) for key, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list) else value

    def bytes(self, data: bytes) -> bytes:
        """Returns the same bytes if they contain no secret."""
        for value, name in self._secrets:
            data = data.replace(os.fsencode(value), f"[{name}]".encode())
        return data
