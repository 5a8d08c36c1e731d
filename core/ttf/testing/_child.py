"""The other side of `_children`: `python -m ttf.testing._child`, one task and out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ttf.supervise.throwaway_main import main

Tell = Callable[[Mapping[str, Any]], None]
Work = Callable[[Mapping[str, Any], Tell], Mapping[str, Any]]


def _ours(name: str) -> Work:
    from ttf.testing import _tasks

    return _tasks.TASKS[name]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), _ours)
