"""A tower, a miner and an observer that do what TTF_SABOTAGE says, at the place and step it says.

Without it they are the tower `linear` and the miner `hnswlib`, weight for weight.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.conftest import FakeDistribution
from tests.kit import gate, native_faults

VARIABLE: Final = "TTF_SABOTAGE"
HURRIES: Final = {"TTF_SABOTAGE_HURRIES": "1"}
"""Steps go on while a checkpoint is written."""
LIFE: Final = "TTF_SABOTAGE_LIFE"
"""'20 steps', '3 s': every trainer is killed after so many steps, or so long after its first step,
within which it does at most 25."""

MODULE: Final = '''
"""Faults are real: native calls, signals, bytes on descriptors."""
import json, os, subprocess, sys, threading, time
from pathlib import Path
import native_faults
from ttf import hookimpl
from ttf.rundir.flight_record import FlightReader
from ttf.rundir.verified_folders import newest_step
from ttf_miners.hnswlib_miner import HnswlibFactory
from ttf_towers.linear import LinearFactory

SPECS = json.loads(os.environ.get("TTF_SABOTAGE", "[]"))
STEP = EVERY = DONE = 0
CHECKPOINTS = None


def await_checkpoint():
    """What a death costs must not depend on the disk: no second step is done while one is written."""
    if EVERY and STEP > EVERY and STEP % EVERY == 1 and "TTF_SABOTAGE_HURRIES" not in os.environ:
        while newest_step(CHECKPOINTS) < STEP - 1 or is_saving():
            time.sleep(0.005)


def is_saving():
    """A checkpoint is there before its thread is free again. One that is due while the thread is not
    free is passed over, and would be awaited for ever."""
    flight = CHECKPOINTS.parent / "flight.bin"
    return flight.exists() and FlightReader(flight).read().saving_since_s is not None


def live_so_long():
    global DONE
    DONE += 1
    most, unit = os.environ.get("TTF_SABOTAGE_LIFE", "0 none").split()
    if unit == "steps" and DONE == int(most):
        os.kill(os.getpid(), 9)
    if unit == "s":
        if DONE == 1:
            threading.Timer(float(most), os.kill, (os.getpid(), 9)).start()
        time.sleep(float(most) / 25)


def perhaps(place):
    """`times` counts over all processes of a run: a file for each."""
    for number, spec in enumerate(SPECS):
        if spec["at"] != place or STEP < spec["step"]:
            continue
        notes = Path(spec["notes"])
        for time_ in range(spec["times"]):
            try:
                (notes / f"{number}-{time_}").touch(exist_ok=False)
            except FileExistsError:
                continue
            ACTS[spec["act"]](notes)
            break


def never_get_the_lock(notes):
    lock = threading.Lock()
    lock.acquire()
    (notes / "reached").touch()
    lock.acquire()


def hold_the_interpreter(notes):
    (notes / "reached").touch()
    native_faults.hold()


def wait(notes):
    (notes / "reached").touch()
    while not (notes / "go").exists():
        time.sleep(0.005)


def cut_line(notes):
    os.write(2, bytes(range(1, 256)) + b"\\nand this line is cut in its mid")
    os._exit(0)


def results_pipe():
    return int(sys.argv[-2])


def start_children(notes):
    """One in a session of its own, one that forgets who started it."""
    own = subprocess.Popen(["sleep", "600"], start_new_session=True)
    bare = subprocess.Popen(["sleep", "600"], env={})
    (notes / "children").write_text(f"{own.pid} {bare.pid}")


def children(notes):
    """Then nobody listens."""
    start_children(notes)
    hold_the_interpreter(notes)


def daemon(notes):
    """Beside children: neither its session nor its environment tells who started it, and its parent
    has ended."""
    start_children(notes)
    hide = "sleep 600 >/dev/null 2>&1 & echo $!"
    said = subprocess.check_output(["sh", "-c", hide], env={}, start_new_session=True)
    (notes / "daemon").write_text(said.decode())
    hold_the_interpreter(notes)


def look_for_daemon(notes):
    pid = (notes / "daemon").read_text().strip()
    (notes / "seen").write_text("there" if Path("/proc", pid).exists() else "gone")


ACTS = {
    **{name: lambda notes, act=act: act() for name, act in native_faults.ACTS.items()},
    "cut-line": cut_line,
    "close": lambda notes: os.closerange(3, 1024),
    "hold": hold_the_interpreter,
    "deadlock": never_get_the_lock,
    "wait": wait,
    "children": children,
    "daemon": daemon,
    "look-for-daemon": look_for_daemon,
    "garbage": lambda notes: os.write(results_pipe(), b"no frame, but as long as the head of one"),
    "nonsense": lambda notes: __import__("ttf.process.messages", fromlist=["write"]).write(
        results_pipe(), {"checkpointed": "soon"}),
}


class Tower(LinearFactory):
    name = "sabotaged"

    def create(self, shape, options):
        import torch

        made = super().create(shape, options)

        class Sabotaged(type(made)):
            def forward(self, x, lengths=None):
                out = super().forward(x, lengths)
                if not torch.is_grad_enabled():
                    perhaps("encode")
                    return out
                perhaps("forward")
                if out.requires_grad:
                    out.register_hook(lambda grad: perhaps("backward"))
                return out

        made.__class__ = Sabotaged
        return made


class Miner(HnswlibFactory):
    name = "sabotaged"

    def create(self, options, context):
        made = super().create(options, context)
        search = made.search

        def sabotaged(queries, k):
            perhaps("search")
            return search(queries, k)

        made.search = sabotaged
        return made


@hookimpl
def ttf_tower(name):
    return Tower() if name == "sabotaged" else None


@hookimpl
def ttf_miner(name):
    return Miner() if name == "sabotaged" else None


@hookimpl
def ttf_run_started(run_dir, config, resumed_from):
    global STEP, EVERY, CHECKPOINTS
    STEP = resumed_from
    EVERY = config["checkpoint"]["every_steps"]
    CHECKPOINTS = Path(run_dir) / "checkpoints"
    perhaps("start")


@hookimpl
def ttf_step(record):
    global STEP
    STEP = record.step
    await_checkpoint()
    live_so_long()
    perhaps("step")


@hookimpl
def ttf_run_finished(run_dir, summary):
    perhaps("end")


perhaps("import")
'''

KINDS: Final = ("tower", "miner", "observer")


def install(folder: Path) -> None:
    """A distribution of its own: it is found where `folder` is on the path."""
    site = FakeDistribution(folder=folder)
    site.add("sabotage", {f"{kind}.sabotaged": "sabotage_plugin" for kind in KINDS})
    site.module("sabotage_plugin", MODULE)
    (folder / "sitecustomize.py").write_text(gate.SITE)
    native_faults.write_into(folder)


def spec(notes: Path, at: str, act: str, *, step: int = 0, times: int = 1) -> dict[str, Any]:
    """`act` at the first `times` visits to `at` from `step` on, whichever process makes them.

    `at`: import, start, forward, backward, encode, step, search, end.
    """
    notes.mkdir(exist_ok=True)
    return {"at": at, "act": act, "step": step, "times": times, "notes": str(notes)}


def variable(*specs: dict[str, Any]) -> dict[str, str]:
    return {VARIABLE: json.dumps(specs)}
