"""A run's folder: one writer at a time, errors of the disk by name, metrics without repetition."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ttf.errors import ConfigError, DataMissing, FolderInUse, StorageError
from ttf.rundir import durable
from ttf.rundir.documents import Summary
from ttf.rundir.folder import RunFolder
from ttf.rundir.metrics_log import MetricsLog

HOLDS = """
import sys
from pathlib import Path
from ttf.rundir.folder import RunFolder
with RunFolder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def begun(path: Path) -> RunFolder:
    """The folder of a run that was begun by a process that has ended."""
    folder = RunFolder.new(path)
    folder.config.write_text("")
    folder.close()
    return folder


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


def test_a_failure_while_entering_lets_go_of_the_lock(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (folder.path / ".owner").mkdir()
    with pytest.raises(StorageError):
        folder.__enter__()
    (folder.path / ".owner").rmdir()
    with RunFolder(folder.path):
        pass


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "run-007").mkdir(parents=True)
    (tmp_path / "runs" / "run-x").mkdir()
    found = [RunFolder.new(None).path for _ in range(2)]
    assert found == [Path("runs/run-008"), Path("runs/run-009")]
    assert all((path / "checkpoints").is_dir() for path in found)


def test_a_folder_that_holds_a_run_is_not_begun_again(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    with pytest.raises(ConfigError, match="already holds a run"):
        RunFolder.new(tmp_path / "run")
    assert RunFolder.existing(tmp_path / "run").path == tmp_path / "run"
    with pytest.raises(DataMissing, match=r"no run\.toml"):
        RunFolder.existing(tmp_path / "nowhere")


def test_a_new_folder_is_held_from_the_start_and_the_loser_leaves_it_alone(tmp_path: Path) -> None:
    winner = RunFolder.new(tmp_path / "run")
    mine = winner.path / ".tmp-mine"
    mine.write_text("not a run's")
    loser = RunFolder(winner.path)
    with pytest.raises(FolderInUse):
        RunFolder.new(winner.path)
    loser.abandon()
    assert winner.checkpoints.is_dir() and (winner.path / ".lock").exists() and mine.exists()
    mine.unlink()
    winner.abandon()
    winner.close()
    assert not winner.path.exists()


def test_a_summary_that_was_never_written_is_empty(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path / "run")
    assert folder.read_summary() == {}
    odd = {"loss": float("nan"), "n": (1, np.float64(0.5))}
    folder.write_summary(cast(Summary, odd))
    assert folder.read_summary() == {"loss": None, "n": [1, 0.5]}


# --- metrics.jsonl -------------------------------------------------------------------------


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_log(path: Path, records: list[dict[str, Any]]) -> None:
    log = MetricsLog(path, None)
    for record in records:
        log.write(record)
    log.sync()
    log.close()


def test_a_new_run_starts_the_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("of another time")
    write_log(path, [{"type": "step", "step": 1, "loss": float("inf")}])
    assert lines(path) == [{"type": "step", "step": 1, "loss": None}]


def test_a_resumed_run_drops_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    kept: list[dict[str, Any]] = [{"type": "eval", "step": 0}, {"type": "mining", "step": 0}]
    kept += [{"type": "step", "step": step} for step in (1, 2, 3)] + [{"type": "eval", "step": 3}]
    # mining at a checkpoint's own step comes after it, and happens again
    dropped = [{"type": "mining", "step": 3}, {"type": "step", "step": 4}]
    write_log(path, kept + dropped)
    log = MetricsLog(path, 3)
    log.write({"type": "step", "step": 4, "again": True})
    log.close()
    assert lines(path) == [*kept, {"type": "step", "step": 4, "again": True}]


@pytest.mark.parametrize(
    "torn", ['{"step": 2, "lo', '{"step": 2}', "\0\0\0\0\n", "17\n", "null\n", "\udcff\udcfe\n"]
)
def test_a_line_that_was_not_finished_is_dropped(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "metrics.jsonl"
    content = b'{"step": 1}\n' + torn.encode(errors="surrogateescape")
    path.write_bytes(content)
    log = MetricsLog(path, 9)
    log.write({"step": 10})
    log.close()
    assert lines(path) == [{"step": 1}, {"step": 10}]


def test_a_resumed_run_whose_metrics_are_gone_begins_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsLog(path, 5).close()
    assert path.read_text() == ""


# --- the disk ------------------------------------------------------------------------------


def private_mount(options: str, script: str) -> subprocess.CompletedProcess[str]:
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
        "mount -t tmpfs -o size=1m tmpfs /mnt && mkdir -p /mnt/run/checkpoints && "
        f'mount -o remount,{options} /mnt && exec "$0" -c "$1"'
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
from ttf.rundir.durable import write_atomically, folder_written_whole
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.folder import RunFolder

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


def test_a_full_disk_is_a_storage_error_and_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    done = private_mount(
        "size=1m",
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
""",
    )
    assert done.returncode == 0, done.stderr


def test_a_read_only_file_system_is_a_storage_error(tmp_path: Path) -> None:
    done = private_mount(
        "ro",
        REFUSED
        + """
refused(lambda: RunFolder.new(ROOT), "/mnt/run", "Read-only", "--out")
refused(lambda: RunFolder.new(ROOT / "deeper"), "/mnt/run/deeper", "Read-only")
refused(lambda: RunFolder(ROOT).__enter__(), "Read-only")
refused(lambda: save(ROOT / "checkpoints", state(1, 10)), "step-000000001", "Read-only")
refused(lambda: write_atomically(ROOT / "a", b""), "/mnt/run/a", "Read-only")
refused(lambda: MetricsLog(ROOT / "metrics.jsonl", None), "metrics.jsonl")
refused(lambda: MetricsLog(ROOT / "metrics.jsonl", 3), "metrics.jsonl")
""",
    )
    assert done.returncode == 0, done.stderr


# --- durable writes ------------------------------------------------------------------------


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    durable.write_json(path, {"a": [1.5, float("nan")]})
    assert durable.read_json(path) == {"a": [1.5, None]}
    with pytest.raises(TypeError):
        durable.write_json(path, {"a": object()})
    assert durable.read_json(path) == {"a": [1.5, None]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with durable.folder_written_whole(path) as temp:
        (temp / "inner").mkdir()
        (temp / "inner" / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), durable.folder_written_whole(path) as temp:
        (temp / "a").write_text("new")
        _ = 1 / 0
    assert (path / "inner" / "a").read_text() == "old"
    with durable.folder_written_whole(path) as temp:
        (temp / "b").write_text("new")
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_holds_a_run_is_refused_with_the_way_to_go_on(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    with pytest.raises(ConfigError, match="already holds a run") as refusal:
        RunFolder.new(tmp_path / "run")
    assert f"ttf resume {tmp_path / 'run'}" in refusal.value.hint
