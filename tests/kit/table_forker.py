"""Loads torch once, then forks a child for each line of standard input (a JSON list: folder,
failpoint); the child runs the program of `dense_table`. Answers: rounds that were told to be
durable, and the exit status."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path

import torch
from tests.kit.dense_table import write_table

from ttf.process.lifeline import die_with_parent
from ttf.rundir import durable
from ttf.rundir.failpoints import Failpoint


def main() -> None:
    torch.set_num_threads(1)  # Forked below: no OpenMP thread may exist before.
    gc.freeze()  # Else the first collection of each child copies all that torch brought.
    for line in sys.stdin:
        folder, failpoint = json.loads(line)
        out, into = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if not child:
            die_with_parent(parent)
            os._exit(_child(Path(folder), failpoint, into))
        os.close(into)
        with os.fdopen(out, "rb") as told:
            rounds = list(told.read())
        _, status = os.waitpid(child, 0)
        answer = {"rounds": rounds, "status": os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)


def _child(folder: Path, failpoint: str, into: int) -> int:
    # As TTF_FAILPOINT does at import: this process has imported the seam already.
    durable._interceptor = Failpoint.parse(failpoint)

    def tell(number: int) -> None:
        os.write(into, bytes([number]))

    try:
        write_table(folder, tell)
    except Exception:  # noqa: BLE001 - the parent looks at the status
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
