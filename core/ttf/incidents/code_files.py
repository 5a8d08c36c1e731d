"""Files of code that a traceback names, and that are newer than the process that ran them."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAMED: Final = re.compile(r'  File "(/[^"\n]+\.py)", line \d+|\((/[^()\n]+\.py)\)$', re.MULTILINE)
_MOST: Final = 200


def written_since(text: str, started: float) -> tuple[str, ...]:
    """Returns the files that `text` names (the last one first) and that were written after
    `started` (seconds since 1970)."""
    named = [file or other for file, other in _NAMED.findall(text)]
    found = []
    for path in list(dict.fromkeys(reversed(named)))[:_MOST]:
        with suppress(OSError):
            if Path(path).stat().st_mtime > started:
                found.append(path)
    return tuple(found)
