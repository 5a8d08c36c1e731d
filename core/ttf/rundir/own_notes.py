"""Small notes in TTF_HOME of what this user did on this machine; nobody else can have written them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ttf.rundir.cache import cache_dir
from ttf.rundir.durable import temporary_path

_MOST_BYTES: Final = 4096


def write_note(kind: str, about: Path, facts: Mapping[str, str]) -> None:
    """Best effort: without the note the user is asked again. `about`: a folder, which is named in it."""
    path = _path_of(kind, about)
    text = json.dumps({"folder": str(about.resolve()), **facts})
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = temporary_path(path)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        new.replace(path)


def read_note(kind: str, about: Path) -> Mapping[str, object] | None:
    """None if there is none of this user, or another user could have changed it."""
    try:
        fd = os.open(_path_of(kind, about), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(file.fileno())
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not ours or found.st_mode & 0o077:  # TTF_HOME may be a folder of many users
            return None
        with contextlib.suppress(ValueError):
            facts = json.loads(file.read(_MOST_BYTES))
            return facts if isinstance(facts, dict) else None
    return None


def _path_of(kind: str, about: Path) -> Path:
    whole = os.fsencode(about.resolve())
    return cache_dir() / kind / f"{hashlib.sha256(whole).hexdigest()}.json"
