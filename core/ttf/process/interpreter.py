"""Which Python a person means."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def interpreter(text: str) -> str:
    """The executable that a person means: a file, a virtual environment, or a name on PATH. Raises
    ValueError."""
    given = Path(text).expanduser()
    if given.is_dir():
        inside = [given / "bin" / "python", given / "python"]
        given = next((path for path in inside if path.is_file()), given)
        if given.is_dir():
            raise ValueError(f"{text} is a folder without bin/python.")
    found = shutil.which(str(given) if os.sep in str(given) else text)
    if found is None:
        why = "it is not executable" if given.is_file() else "there is no such file"
        raise ValueError(f"{why}: {text}")
    # Not resolved: the link in a virtual environment is what makes it one.
    return str(Path(found).absolute())
