"""A run without a supervisor, for debuggers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttf.rundir.run_folder import RunFolder

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary
    from ttf.rundir.request import TrainRequest


def train_in_process(request: TrainRequest) -> Summary:
    from ttf.rundir.run_folder import RunLog
    from ttf.text.progress import Reporter, make_reporter, with_log
    from ttf.training.launch import train_here
    from ttf.training.supervisor_link import Link

    folder = RunFolder(Path(request.run_dir))
    shown = make_reporter(json=request.json) if request.progress else Reporter()
    with RunLog(folder, resume=request.resume) as log:
        reporter = with_log(shown, lambda told: log.write(told["log"]), request.command)
        return train_here(request, folder, reporter, Link())
