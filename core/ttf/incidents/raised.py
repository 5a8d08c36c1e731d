"""Where an exception was raised, as its traceback says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_FRAME: Final = re.compile(
    r'^(?:\[[\w:]+\]:)? *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]+)',
    re.MULTILINE,
)
_HEAD: Final = re.compile(r"Traceback \(most recent call last\):[ \t\r]*$", re.MULTILINE)
# Launchers of several processes put a name before each line.
_END: Final = re.compile(r"^(?:\[[\w:]+\]: \S|(?!\[[\w:]+\]:)\S)", re.MULTILINE)
_LIBRARY: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<")
_OURS: Final = str(Path(__file__).parents[1])


def of_a_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def raised_at(words: str) -> str:
    """'/x/a.py:3 in get, called from /x/train.py:8 in batch': the innermost frame of the last
    traceback, and the innermost that is in no library; '' without frames.

    >>> raised_at('Traceback (most recent call last):\\n  File "/x/train.py", line 8, in batch\\n'
    ...     '  File "/x/site-packages/a.py", line 3, in get\\nKeyError: 1\\n')
    '/x/site-packages/a.py:3 in get, called from /x/train.py:8 in batch'
    """
    *_, head = [None, *_HEAD.finditer(words)]
    if head is None:
        return ""
    end = _END.search(words, head.end() + 1)
    frames = list(_FRAME.finditer(words, head.end(), end.start() if end else len(words)))
    if not frames:
        return ""
    own = own_frame(frames)
    called = "" if own is None or own is frames[-1] else f", called from {_text(own)}"
    return f"{_text(frames[-1])}{called}"


def own_frame(frames: list[re.Match[str]]) -> re.Match[str] | None:
    own = [f for f in frames if not of_a_library(f["file"]) and not f["file"].startswith(_OURS)]
    return own[-1] if own else None


def own_place(words: str) -> str:
    """'train.py:8 in batch': the innermost frame of all tracebacks that is in no library, else the
    innermost of all; '' without frames."""
    frames = list(_FRAME.finditer(words))
    return _text(own_frame(frames) or frames[-1]) if frames else ""


def _text(frame: re.Match[str]) -> str:
    return f"{frame['file']}:{frame['line']} in {frame['function']}"
