"""`python -m ttf.tools.ab.hosts.job REQUEST`: the repeats of a block, as a job of an executor.

Standard output gets a line of JSON for the host, one for each repeat that ended, and one for the end.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

from ttf.errors import ConfigError, TtfError
from ttf.jobs import Job
from ttf.process.error_document import to_document
from ttf.rundir.confined import parsed_line
from ttf.rundir.typed_json import dataclass_from
from ttf.text.limited_json import parsed_json
from ttf.text.terminal import echo
from ttf.tools.ab.hosts import alike
from ttf.tools.ab.hosts.runner import CellRunner
from ttf.tools.ab.hosts.wire import cells_from, cells_message, finished_message
from ttf.tools.ab.setup import ABSetup, Cell

_LOOK_EVERY_S: Final = 0.05


def job_of(
    setup: ABSetup, cells: Sequence[Cell], folder: Path, name: str, *, keep_runs: bool
) -> Job:
    """`folder`: where the runs go, on the host that runs it."""
    request = {
        "setup": asdict(setup),
        "cells": cells_message(cells),
        "folder": str(folder),
        "keep_runs": keep_runs,
    }
    return Job(name=name, module=__name__, words=(json.dumps(request),), cwd=setup.cwd)


def told(output: bytes) -> Iterator[dict[str, Any]]:
    """The lines of its standard output; what a library printed in between is left out."""
    for raw in output.splitlines():
        line = parsed_line(raw)
        if line is not None:
            yield line


def main(text: str) -> int:
    def stop(signum: int, frame: Any) -> NoReturn:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    try:
        _work(parsed_json(text.encode()))
    except TtfError as error:
        _tell({"error": {**to_document(error), "traceback": ""}})
        return int(error.exit_code)
    _tell({"over": True})
    return 0


def _work(request: Mapping[str, Any]) -> None:
    import time

    setup = dataclass_from(ABSetup, request["setup"])
    if setup.problem:
        raise ConfigError(setup.problem)
    _tell({"own": alike.own(setup).message})
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    runner = CellRunner(
        setup=setup, folder=folder, parallel=1, keep_runs=bool(request["keep_runs"])
    )
    runner.add(cells_from(request["cells"], setup))
    try:
        while not runner.idle:
            for finished in runner.look(begin=True):
                _tell({"result": finished_message(finished)})
            time.sleep(_LOOK_EVERY_S)
    finally:
        runner.end()


def _tell(line: Mapping[str, Any]) -> None:
    echo(json.dumps(line))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
