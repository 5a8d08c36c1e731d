"""Small file systems that are really full, or really read-only, while a run saves on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BEFORE = """
import os, subprocess, time
from pathlib import Path
import torch
from tests.kit.small_run import begin, steps_logged, recovered, snapshot
from ttf.rundir.verified_folders import newest_step
from ttf.errors import StorageError
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.metrics_log import MetricsLog
from ttf.training.checkpoint_writer import Saver

torch.set_num_threads(1)
root = begin(Path("/mnt/run"))
said, saved = [], []
log = MetricsLog(root / "metrics.jsonl", None, retry_s=60, say=said.append)

def saver_with(retry_s):
    return Saver(root / "checkpoints", keep=2, retry_s=retry_s, flight=FlightRecorder(None),
                 on_saved=lambda step, *_: saved.append(step), say=said.append,
                 sync_first=log.make_durable)

def state(step):
    made = snapshot(step)
    made.progress["table"] = ""
    made.optimizer = {"0.m": torch.full((25_000,), float(step))}
    return made

def save(saver, step):
    log.write({"step": step})
    assert saver.save(state(step))
    while saver.busy:
        time.sleep(0.001)

def fill(left):
    with open("/mnt/filler", "wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * 4096):
                pass
        except OSError:
            pass
        filler.truncate(filler.tell() - left)

def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", "/mnt"], check=True)
"""


def on_a_small_disk(script: str) -> None:
    """Runs Python with a tmpfs of its own at /mnt, seen by nobody else and gone with it."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare: mounts are not allowed otherwise")
    mount = "mount -t tmpfs -o size=2m tmpfs /mnt"
    if subprocess.run(
        ["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False
    ).returncode:
        pytest.skip("this container may not mount")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" -c "$1"', sys.executable]
        + [BEFORE + script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_full_disk_costs_nothing_once_there_is_room_and_a_read_only_one_as_little() -> None:
    """Whoever has no patience with it is told what to do."""
    on_a_small_disk("""
saver = saver_with(60)
save(saver, 1); save(saver, 2)
for left in (0, 4096, 40_000, 100_000):  # not one file, and not all of them
    fill(left)
    before, said[:] = newest_step(root / "checkpoints"), []
    save(saver, before + 1)
    saver.raise_if_failed()
    assert any("IS NOT WRITTEN" in t and "No space left" in t for t in said), said
    assert newest_step(root / "checkpoints") == before
    assert not [p for p in (root / "checkpoints").iterdir() if p.name.startswith(".tmp")]
    log.write({"step": before + 2})  # metrics of further steps wait in memory, or have room
    os.unlink("/mnt/filler")
    assert saver.save(state(before + 2))
    while saver.busy:
        time.sleep(0.001)
    saver.raise_if_failed()
    assert newest_step(root / "checkpoints") == before + 2 == saved[-1]
saver.close()
last = saved[-1]

saver = saver_with(0)
fill(0)
save(saver, last + 1)
try:
    saver.raise_if_failed()
except StorageError as error:
    assert int(error.exit_code) == 8
    assert "No space left" in str(error) and f"step {last} is intact" in str(error), str(error)
    assert "ttf resume /mnt/run" in error.hint
else:
    raise AssertionError("was not raised")
saver.close()
assert recovered(root).step == last
os.unlink("/mnt/filler")
log.close()  # the kernel refuses to remount under a file that is open for writing
assert steps_logged(root) == list(range(1, last + 2))

saver = Saver(root / "checkpoints", keep=2, retry_s=60, flight=FlightRecorder(None),
              on_saved=lambda step, *_: saved.append(step), say=said.append)
said[:] = []

def attempt(step):
    assert saver.save(state(step))
    while saver.busy:
        time.sleep(0.001)
    saver.raise_if_failed()

remount("ro")
attempt(last + 2)
assert "IS NOT WRITTEN" in said[0] and "Read-only file system" in said[0], said
assert newest_step(root / "checkpoints") == last
remount("rw")
attempt(last + 3)
assert "can be written again" in said[1] and f"step {last + 3}" in said[1], said
saver.close()
assert saved[-2:] == [last, last + 3]
assert recovered(root).step == last + 3
""")
