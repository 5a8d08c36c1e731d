"""On the path of a disturbed run: gives its first trainer a failpoint, and no other process.

A failpoint in the environment would strike every trainer at the same operation again, which no
real fault does. CHAOS_FAILPOINT is what TTF_FAILPOINT takes; CHAOS_STRUCK is a file that must not
exist yet.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _arm() -> None:
    wanted = os.environ.get("CHAOS_FAILPOINT")
    if not wanted or "ttf.training.launch" not in sys.orig_argv:
        return
    try:
        Path(os.environ["CHAOS_STRUCK"]).touch(exist_ok=False)
    except FileExistsError:
        return
    os.environ["TTF_FAILPOINT"] = wanted
    import ttf.rundir.durable  # noqa: F401 - reads it now

    del os.environ["TTF_FAILPOINT"]  # the miner's worker is spared


_arm()
