"""Commands in forks of a warm process, and one of twenty also as users start them: a new Python in the same
folder. What both did must agree, so that nothing holds for forks only."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from chaos.verdict import Verdict
from tests.kit.forked_commands import Did, ForkedCommands, run_ordinary

SHARE: Final = 0.05
ALSO_ORDINARY: Final = "commands run in the ordinary way too"
ORDINARY_S: Final = 60.0
"""With the start of Python and the import of torch, on a busy machine."""
# A time, a size or a rate with its unit, a number of a process: other ones at every run.
_MEASURED: Final = re.compile(r"[\d.,:e+-]*\d *(ns|us|ms|s|m|min|h|kB|MB|GB|bytes|/s)?\b")
# Only a warm process has loaded torch before the command begins.
_OF_FORKS: Final = "note: torch was loaded before"
_ARRAYS: Final = ("copy.npz", "part.npz", "cut.npz")


def environment(place: Path) -> dict[str, str]:
    return {"TTF_HOME": str(place / "home"), "TMPDIR": str(place)}


class BothWays:
    def __init__(self, forked: ForkedCommands, rng: random.Random, verdict: Verdict) -> None:
        self._forked = forked
        self._rng = rng
        self._verdict = verdict

    def run(self, words: list[str], place: Path) -> tuple[Did, str]:
        """What the forked command did, and in what the ordinary one differed; empty if in nothing."""
        if self._rng.random() >= SHARE:
            return self._forked.run(words, place, environment(place)), ""
        self._verdict.phases[ALSO_ORDINARY] += 1
        # At the same path, so that messages are alike.
        before, forked = (place.with_name(f"{place.name}-{n}") for n in ("before", "forked"))
        _copy(place, before)
        did = self._forked.run(words, place, environment(place))
        place.rename(forked)
        before.rename(place)
        other = run_ordinary(words, place, environment(place), longest_s=ORDINARY_S)
        self._verdict.saw(**{"seconds in the ordinary way": other.seconds})
        differs = other.problem or difference(did, other) or _other_files(forked, place)
        if differs:
            forked.rename(f"{forked}-{self._verdict.phases[ALSO_ORDINARY]}")
            return did, f"in the ordinary way: {differs}"
        shutil.rmtree(place)
        forked.rename(place)
        return did, ""


def _copy(place: Path, copy: Path) -> None:
    # Not by shutil.copytree: there are pipes, and links to nothing.
    subprocess.run(["cp", "-a", str(place), str(copy)], check=True)


def difference(forked: Did, other: Did) -> str:
    if forked.code != other.code:
        return f"exit code {other.code}, forked {forked.code}: {other.err[-600:]} | {forked.err[-600:]}"  # fmt: skip
    for name, one, two in (("out", forked.out, other.out), ("err", forked.err, other.err)):
        lines, others = _lines(one), _lines(two)
        if lines != others:
            return f"{name} differs: {sorted(lines ^ others)[:6]}"
    return ""


def _lines(text: str) -> set[str]:
    lines = (line for line in text.splitlines() if not line.startswith(_OF_FORKS))
    return {_MEASURED.sub("0", line) for line in lines}


def _other_files(forked: Path, other: Path) -> str:
    names, others = ({p.name for p in place.iterdir()} for place in (forked, other))
    if names != others:
        return f"other files: {sorted(names ^ others)}"
    found = (n for n in _ARRAYS if n in names and _bytes(forked / n) != _bytes(other / n))
    return next((f"{name} has other bytes" for name in found), "")


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
