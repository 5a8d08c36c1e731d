"""Which distribution this is: `twotower`, or `twotower-guard`, its crash side without torch.

Both have the same files. `twotower-guard` keeps them in a folder of its own name, so that it can be
beside `twotower` in one environment (docs/decisions/0022-the-crash-side-alone.md).
"""

from __future__ import annotations

import re
from typing import Final

from ttf.errors import ConfigError

FULL: Final = "twotower"
CRASH_SIDE: Final = "twotower-guard"
_OF_CRASH_SIDE: Final = re.compile(r"[/\\]twotower_guard[/\\]ttf[/\\]host[/\\][^/\\]+$")
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def name_of(file: str) -> str:
    """The distribution that brought a file `.../ttf/host/*.py`."""
    return CRASH_SIDE if _OF_CRASH_SIDE.search(file) else FULL


NAME: Final = name_of(__file__)


def require_full(what: str, instead: str = "") -> None:
    """Raises ConfigError if this is the crash side; `instead` is what it offers for the purpose."""
    if NAME == CRASH_SIDE:
        raise ConfigError(
            f"{what} needs {FULL}, but only {CRASH_SIDE} is installed here: it explains crashes and "
            "does not train.",
            hint=instead or f"pip install {FULL}   (with torch; in an environment of its own)",
        )


def missing_library(error: ModuleNotFoundError) -> ConfigError | None:
    """For a library that this distribution needs, always or with an extra, and that is not
    installed; None if something else is missing."""
    from importlib import metadata

    name = (error.name or "").partition(".")[0]
    try:
        wanted = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return None
    known = {found[0].lower() for line in wanted if (found := _REQUIREMENT.match(line))}
    if name not in known:
        return None
    return ConfigError(
        f"This command needs {name}, which is not installed in this environment.",
        hint=f"pip install {name}",
    )
