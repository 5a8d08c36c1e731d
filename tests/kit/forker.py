"""Loads torch once, then forks a child per request; the child writes a small run, disturbed.

A request is a line of JSON; the child makes ready and waits until the next line says go. Answers are lines of JSON:
the child's process id, then its wait status.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from tests.kit.fixtures.durability import told_by
from tests.kit.small_run import write_run

from ttf.process.lifeline import die_with_parent
from ttf.rundir import durable
from ttf.rundir.failpoints import Failpoint


def main() -> None:
    torch.set_num_threads(1)  # forked below: no OpenMP thread may exist before
    gc.freeze()  # else the first collection of each child copies all that torch brought
    for line in sys.stdin:
        request = json.loads(line)
        gate, opener = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if not child:
            die_with_parent(parent)
            os._exit(_child(request, gate))
        print(json.dumps({"pid": child}), flush=True)
        sys.stdin.readline()
        os.write(opener, b"g")
        os.close(gate)
        os.close(opener)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


def _child(request: dict[str, Any], gate: int) -> int:
    root = Path(request["root"])
    told = os.open(told_by(root), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def tell(**what: object) -> None:
        os.write(told, json.dumps(what).encode() + b"\n")

    def ready() -> None:
        tell(ready=True)
        os.read(gate, 1)

    if request["failpoint"]:
        # As TTF_FAILPOINT does at import: this process has imported the seam already.
        durable._interceptor = Failpoint.parse(request["failpoint"])
    try:
        write_run(root, tell=tell, ready=ready, **request["options"])
    except BaseException:  # noqa: BLE001 -- told to the test
        tell(error=traceback.format_exc())
        return 1
    return 0


if __name__ == "__main__":
    main()
