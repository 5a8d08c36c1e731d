"""Checkpoints: what comes back is what was saved, bit for bit, or it is not taken at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLED_WHILE_SAVING = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from ttf.training import checkpoint
from ttf.rundir import verified_folders
from ttf.rundir.run_folder import RunFolder

torch.set_num_threads(1)  # forked below: no OpenMP thread may exist before
folder = RunFolder(Path(sys.argv[1]))
random.seed(0)

def save_for_ever(step, out):
    while True:
        step += 1
        big = torch.full((200, 1000), float(step))
        state = checkpoint.Snapshot(
            step=step // 3, model={"w": big}, optimizer={"0.m": big}, bank={}, best={"w": big},
            progress={"value": step, "table": ""})
        checkpoint.save(folder.checkpoints, state)
        verified_folders.prune(folder.checkpoints, 2)
        os.write(out, b"%d " % step)

saved, leftovers, kills = 3, 0, 0
while kills < 15 or not leftovers:
    kills += 1
    assert kills < 500, "no kill met a save: the test tests nothing"
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        save_for_ever(saved, writer)
    os.close(writer)
    told = os.read(reader, 100)
    time.sleep(random.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reader, 10000):
        told += more
    os.close(reader)
    saved = max(saved, *(int(n) for n in told.split()))
    leftovers += len(list(folder.checkpoints.glob(".tmp-*")))
    with folder:
        assert not list(folder.checkpoints.glob(".tmp-*"))
    taken = checkpoint.load_newest(folder.checkpoints, lambda line: None)
    value = taken.progress["value"]
    assert value >= saved, (value, saved)
    for tensor in (taken.model["w"], taken.optimizer["0.m"], taken.best["w"]):
        assert bool((tensor == value).all())
"""


def test_killed_anywhere_in_a_save_it_leaves_a_whole_checkpoint_and_no_litter(
    tmp_path: Path,
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "run.toml").touch()
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
