"""Whether a run folder that was damaged still gives the results of the undamaged one.

A command that ends well and without a warning shows the same results, or the results that the configuration asks for:
what run.toml says is the user's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from chaos.both_ways import environment
from tests.kit.forked_commands import Did, ForkedCommands

_SHOWN: Final = ("eval run", "search run --queries pairs.npz -k 3")
_WARNING: Final = "warning:"


class ResultsTold:
    def __init__(self, commands: ForkedCommands, good: Path) -> None:
        self._good = good
        self._told = {w: commands.run(w.split(), good, environment(good)).out for w in _SHOWN}

    def can_be_judged(self, words: str, place: Path) -> bool:
        return words in _SHOWN and self._has_the_configuration(place)

    def wrong_results(self, words: str, did: Did, place: Path) -> str:
        """Empty if all was right."""
        if did.out == self._told[words] or _WARNING in did.err:
            return ""
        return f"other results than those of the undamaged run: {did.out[:200]}"

    def _has_the_configuration(self, place: Path) -> bool:
        path = place / "run" / "run.toml"
        if path.is_symlink() or not path.is_file():
            return False
        there = path.read_bytes().replace(b"\nsteps = 3 ", b"\nsteps = 2 ")
        return there == (self._good / "run" / "run.toml").read_bytes()
