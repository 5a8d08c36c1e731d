"""A run's folder: one writer at a time, errors of the disk by name, metrics without repetition."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.training.test_run_folder import begun

from ttf.errors import FolderInUse
from ttf.rundir.run_folder import RunFolder

HOLDS = """
import sys
from pathlib import Path
from ttf.rundir.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another live process that holds the folder; ends when it is let go."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_folder_that_a_live_process_holds_is_refused_with_its_number(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with held_elsewhere(folder.path) as other:
        (folder.path / ".tmp-of-the-other").write_text("being written")
        with pytest.raises(FolderInUse, match=f"process {other.pid}"):
            RunFolder.new(tmp_path / "run")
        with pytest.raises(FolderInUse, match=f"process {other.pid}"), folder:
            pass
        assert (folder.path / ".tmp-of-the-other").exists(), "nothing of it is tidied away"


def test_what_a_killed_process_held_is_free_and_tidied(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with held_elsewhere(folder.path) as other:
        other.kill()
        other.wait()
        for place in (folder.path, folder.checkpoints, folder.candidates, folder.index):
            (place / ".tmp-file-1").write_text("torn")
            (place / ".tmp-folder-1").mkdir()
            (place / ".tmp-folder-1" / "part").write_text("torn")
        with folder:
            assert not list(folder.path.rglob(".tmp-*"))
            assert (folder.path / ".owner").read_text() == str(os.getpid())
    assert not (folder.path / ".owner").exists()


# --- the disk ------------------------------------------------------------------------------


def on_a_small_disk(script: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with a tmpfs of its own at /mnt, seen by nobody else; skips where not allowed."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare: file permissions do not bind, mounts are not allowed")
    probe = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip("this container may not mount")
    before = "import json, torch\nfrom pathlib import Path\nROOT = Path('/mnt/run')\n"
    command = (
        'mount -t tmpfs -o size=1m tmpfs /mnt && mkdir -p /mnt/run/checkpoints && exec "$0" -c "$1"'
    )
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, before + script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


REFUSED = """
from ttf.training.checkpoint import Snapshot, load_newest, save
from ttf.errors import StorageError
from ttf.rundir.durable import write_atomically
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.run_folder import RunFolder

def state(step, size):
    return Snapshot(step=step, model={"w": torch.zeros(size)}, optimizer={}, bank={}, best={})

def refused(act, *says):
    try:
        act()
    except StorageError as error:
        assert int(error.exit_code) == 8
        for part in says:
            assert part in f"{error} {error.hint}", (part, str(error), error.hint)
    else:
        raise AssertionError("was not refused")
"""


def test_a_full_disk_is_a_storage_error_leaves_the_old_checkpoint_and_so_is_a_read_only_one() -> (
    None
):
    done = on_a_small_disk(
        REFUSED
        + """
folder = ROOT / "checkpoints"
save(folder, state(1, 1000))
refused(lambda: save(folder, state(2, 1_000_000)), "step-000000002", "No space left", "Free some")
assert [p.name for p in folder.iterdir()] == ["step-000000001"]
assert load_newest(folder, print).step == 1
log = MetricsLog(ROOT / "metrics.jsonl", None)
try:
    with (ROOT / "filler").open("wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass
except OSError:
    pass
refused(lambda: write_atomically(ROOT / "a", b"x" * 10_000), "No space left", "/mnt/run/a")
def write_much():
    for step in range(1000):
        log.write({"step": step, "loss": 0.123456})
refused(write_much, "metrics.jsonl", "No space left")
assert not list(ROOT.rglob(".tmp-*"))

(ROOT / "filler").unlink()
log.close()  # the kernel refuses to remount under a file that is open for writing
import shutil, subprocess
shutil.rmtree(ROOT)
folder.mkdir(parents=True)
subprocess.run(["mount", "-o", "remount,ro", "/mnt"], check=True)
refused(lambda: RunFolder.new(ROOT), "/mnt/run", "Read-only", "use another folder")
refused(lambda: RunFolder.new(ROOT / "deeper"), "/mnt/run/deeper", "Read-only")
refused(lambda: RunFolder(ROOT).__enter__(), "Read-only")
refused(lambda: save(ROOT / "checkpoints", state(1, 10)), "step-000000001", "Read-only")
refused(lambda: write_atomically(ROOT / "a", b""), "/mnt/run/a", "Read-only")
refused(lambda: MetricsLog(ROOT / "metrics.jsonl", None), "metrics.jsonl")
refused(lambda: MetricsLog(ROOT / "metrics.jsonl", 3), "metrics.jsonl")
""",
    )
    assert done.returncode == 0, done.stderr
