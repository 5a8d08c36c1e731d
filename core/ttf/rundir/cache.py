"""The cache folder for things that can be made again: `TTF_HOME`, or the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    home = os.environ.get("TTF_HOME")
    if home:
        return Path(home).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("ttf")
