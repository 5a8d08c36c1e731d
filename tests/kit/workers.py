"""What every xdist worker needs and one of them makes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that its workers share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(shared: Path, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returned (as JSON) to the first worker that asked; the others wait for it."""
    done = shared / f"{name}.json"
    with FileLock(shared / f"{name}.lock"):
        if not done.exists():
            done.write_text(json.dumps(make()))
        return json.loads(done.read_text())
