"""Runs a `ttf` command as a child that ends with its parent; its output goes to files.

`python -m ttf.process.command PARENT WORDS...` is the child's side.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ttf.process import child, lifeline, limits

# the first signal: save and leave; the second: leave at once
_STOPS: Final = (signal.SIGTERM, signal.SIGTERM)


class TtfCommand:
    """Must be started from a thread that lives as long: the kernel ends the child with that
    thread."""

    @limits.explained()
    def __init__(
        self,
        words: Sequence[str],
        out: Path,
        err: Path,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`words` follow `ttf`; `out` and `err` are new files. `environment` replaces the whole environment; None: inherit it."""
        self.out = out
        self.err = err
        self._mark = uuid.uuid4().hex
        given = os.environ if environment is None else environment
        with out.open("xb") as stdout, err.open("xb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env={**given, child.TREE: self._mark},
                start_new_session=True,  # Ctrl-C is for us, and `end` tells it
            )

    def end(self, grace_s: float) -> None:
        """Asks the command to end, then kills what is left of it and its children."""
        for signum in _STOPS:
            if self.process.poll() is None:
                self.process.send_signal(signum)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(grace_s)
        child.kill_tree(child.NO_SESSION, self._mark, child.TREE)
        self.process.wait()


def main(parent: int, words: list[str]) -> None:
    lifeline.die_with_parent(parent)
    sys.argv[1:] = words
    runpy.run_module("ttf", run_name="__main__", alter_sys=True)  # as `python -m ttf` does


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
