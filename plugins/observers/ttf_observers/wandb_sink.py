"""Weights & Biases, offline: files in RUN/wandb, which `wandb sync` uploads if somebody wants that.

A resumed run is another file of the same run id. With WANDB_MODE=online points are sent at once; then
the steps of a process that was killed are known only to the server, which drops what it has.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf import Availability, BadData
from ttf_observers._tracker import Point, TrackerSink, flat, run_key

INSTALL: Final = 'pip install "twotower[wandb]"'


class _Run:
    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        import wandb

        self._folder = run_dir / "wandb"
        if self._folder.is_symlink():  # a run folder may be of anybody; the library follows it
            raise BadData(f"{self._folder} is a symbolic link.", hint="Replace it by a folder.")
        self._last = self._read_last()
        quiet = wandb.Settings(
            silent=True,
            console="off",  # standard output is ttf's
            x_disable_stats=True,
            x_disable_meta=True,  # names of host, user and program
            x_disable_machine_info=True,
            save_code=False,
            disable_git=True,
        )
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "ttf",
            id=run_key(run_dir),
            name=run_dir.name,
            dir=str(run_dir),
            mode="online" if os.environ.get("WANDB_MODE") == "online" else "offline",
            resume="allow",
            config=flat(config),
            settings=quiet,
        )

    def last_step(self) -> int | None:
        return self._last

    def send(self, points: list[Point]) -> None:
        for step, at, values in points:
            self._run.log({**values, "_timestamp": at}, step=step)

    def finish(self, status: str, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            self._run.summary[f"ttf/{name}"] = text
        self._run.finish(exit_code=0 if status in ("finished", "stopped") else 1)

    def _read_last(self) -> int | None:
        from ttf_observers._wandb_file import history

        files = sorted(self._folder.glob("offline-run-*/*.wandb"))
        return max(
            (step for path in files for step, _ in history(path, self._folder)), default=None
        )


def _available() -> Availability:
    if importlib.util.find_spec("wandb") is not None:
        return Availability(ok=True)
    return Availability(ok=False, reason="the wandb library is not installed", fix=INSTALL)


SINK: Final = TrackerSink("wandb", _available, _Run)
