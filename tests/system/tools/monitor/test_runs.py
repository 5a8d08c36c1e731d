"""A real run, watched while it trains, when its supervisor is killed, and after it has ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.conftest import Invoke, wait_until
from tests.kit import saboteur as sabotage
from tests.kit.live_run import LiveRun
from tests.kit.struck_run import EVERY, World
from tests.kit.widely import wide

from ttf.process.lifeline import is_stopped
from ttf.tools.monitor.view import View
from ttf.tools.monitor.watch import Monitor
from ttf.tools.monitor.what_to_watch import find

STEPS = 70
Ttf = Callable[..., subprocess.Popen[str]]


def test_a_run_is_seen_from_its_start_to_its_end(
    live: Callable[..., LiveRun],
    world: World,
    tmp_path: Path,
    ttf: Ttf,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, notes = tmp_path / "run", tmp_path / "notes"
    waits = sabotage.spec(notes, "forward", "wait", step=EVERY + 5)
    training = live(world.config(run, steps=STEPS), sabotage.variable(waits))
    training.until(lambda: (run / ".owner").exists(), "there is a folder")
    early = Monitor(find(str(run))).look()
    assert early.alive and early.run is not None and early.run.step == 0
    watcher = ttf("monitor", run, "--interval", 0.2)
    training.until((notes / "reached").exists, "it waits")
    training.until(lambda: any((run / "checkpoints").glob("step-*")), "a checkpoint is whole")
    trainer, flight = training.trainer(), training.flight()
    os.kill(trainer, signal.SIGSTOP)
    training.until(lambda: is_stopped(trainer), "it is stopped")
    assert flight is not None and flight.phase == "forward"
    monkeypatch.setattr("ttf.tools.monitor.view.STALE_S", 0.5)
    monitor = Monitor(find(str(run)))
    time.sleep(0.6)
    _assert_training(monitor.look(), training, trainer, flight.step)
    by_process = invoke(["monitor", str(training.pid), "--json"]).json()
    assert by_process["run"]["folder"] == str(run), "its lock tells which run it is"
    assert by_process["processes"][0]["role"] == "ttf train"
    os.kill(trainer, signal.SIGCONT)
    (notes / "go").touch()
    assert training.wait().code == 0
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 0, err
    assert err.splitlines()[0] == f"{run}: finished, exit code 0"
    rows = _rows(out.splitlines())
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted(steps) and steps[-1] == STEPS
    _assert_finished(run, invoke)
    (run / "summary.json").unlink()
    _assert_gone(monitor.look(), invoke, run)


@wide
def test_a_run_is_seen_after_its_supervisor_was_killed_and_when_it_goes_on(
    live: Callable[[Sequence[str]], LiveRun], world: World, tmp_path: Path, ttf: Ttf, invoke: Invoke
) -> None:
    run = tmp_path / "run"
    first = live(world.config(run, steps=STEPS))
    first.trains(since=EVERY + 5)
    monitor = Monitor(find(str(run)))
    assert monitor.look().alive
    first.kill()
    wait_until(lambda: not monitor.look().alive)
    _assert_gone(monitor.look(), invoke, run)
    again = live(["resume", str(run), "--json"])
    again.until(lambda: (run / ".owner").exists(), "it is resumed")
    watcher = ttf("monitor", run, "--interval", 0.2)
    assert again.wait().code == 0
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 0, err
    steps = [int(row["step"]) for row in _rows(out.splitlines())]
    assert min(steps) >= EVERY, "it goes on from its checkpoint"
    assert steps[-1] == STEPS


def _assert_training(view: View, live: LiveRun, trainer: int, step: int) -> None:
    assert view.alive and view.pid == live.pid and view.status == "running"
    roles = {process.role: process for process in view.processes}
    assert (
        {"supervisor", "trainer", "keeper"}
        <= roles.keys()
        <= {*("supervisor", "trainer", "keeper", "miner worker", "resource tracker")}
    )
    assert roles["supervisor"].pid == live.pid and roles["trainer"].pid == trainer
    assert roles["trainer"].state == "stopped"
    assert roles["trainer"].anon is not None and roles["supervisor"].anon is not None
    assert roles["trainer"].anon > 5 * roles["supervisor"].anon
    run = view.run
    assert run is not None and view.memory is not None and view.limit is not None
    assert (run.step, run.total_steps, run.phase) == (step, STEPS, "forward")
    assert run.stale and run.silent_s is not None and run.silent_s >= 0.5
    assert run.loss is not None and run.loss_smoothed is not None and run.samples_per_s is not None
    assert run.checkpoint is not None
    saved = run.checkpoint.step  # it is written beside the training, which may be far ahead
    assert EVERY <= saved <= step and saved % EVERY == 0
    assert 0 <= run.checkpoint.age_s < 100
    assert run.evaluated is not None and "recall@10" in run.evaluated.metrics
    assert (run.restarts, run.incidents, run.ended) == (0, (), None)
    assert view.memory.held <= sum((p.anon or 0) + (p.shared or 0) for p in view.processes) * 1.1


def _assert_gone(view: View, invoke: Invoke, run: Path) -> None:
    assert view.status == "gone" and view.run is not None and view.run.ended is None
    assert view.processes == () and view.memory is None
    assert view.run.last_sign_s is not None and 0 <= view.run.last_sign_s < 100
    done = invoke(["monitor", str(run), "--once"])
    assert done.code == 0 and f"ttf resume {run}" in " ".join(done.out.split())


def _rows(lines: list[str]) -> list[dict[str, str]]:
    assert lines[0].split()[:4] == ["time", "status", "phase", "step"]
    rows = [dict(zip(lines[0].split(), line.split(), strict=True)) for line in lines[1:]]
    assert {len(line) for line in lines} == {len(lines[0])}, "columns stay where they are"
    assert rows[-1]["status"] == "finished"
    assert {row["of"] for row in rows if row["of"] != "-"} == {str(STEPS)}
    assert any(float(row["anon_MB"]) > 100 for row in rows if row["anon_MB"] != "-")
    return rows


def _assert_finished(run: Path, invoke: Invoke) -> None:
    summary = json.loads((run / "summary.json").read_text())
    found = invoke(["monitor", str(run), "--json"]).json()
    assert (found["status"], found["pid"], found["processes"]) == ("finished", None, [])
    ended = found["run"]["ended"]
    assert ended["exit_code"] == 0 and ended["metrics"] == summary["metrics"]
    page = invoke(["monitor", str(run), "--once"]).out
    assert "finished" in page and f"{STEPS} of {STEPS} (100%)" in page and "\x1b" not in page
    lines = invoke(["monitor", str(run)])
    assert lines.code == 0 and len(lines.out.splitlines()) == 2


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A finished run on a disk that takes nothing."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here ({done.stderr.strip()})")
    try:
        run = folder / "run"
        (run / "checkpoints").mkdir(parents=True)
        (run / "run.toml").write_text("[train]\nsteps = 10\n")
        (run / "summary.json").write_text('{"status": "stopped", "exit_code": 130, "steps": 5}')
        (run / "metrics.jsonl").write_text('{"type": "step", "step": 5, "loss": 1.0}\n')
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield run
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_run_on_a_disk_that_may_only_be_read_is_shown(read_only: Path, invoke: Invoke) -> None:
    done = invoke(["monitor", str(read_only)])
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split()[1] == "stopped"
    assert f"ttf resume {read_only}" in done.err
    found = invoke(["monitor", str(read_only), "--json"]).json()
    assert (found["run"]["step"], found["run"]["total_steps"]) == (5, 10)


def test_damaged_files_are_left_out(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "incidents/001").mkdir(parents=True)
    for name in ("summary.json", "supervision.json", "run.toml", "manifest.json"):
        (tmp_path / name).write_bytes(b'{"status": ')
    (tmp_path / "memory.jsonl").write_bytes(b'{"time": 1}\n[]\n{"anon"')
    (tmp_path / "metrics.jsonl").write_bytes(b'{"type": "step", "loss": null, "step": "x"}\n\xff\n')
    (tmp_path / "flight.bin").write_bytes(b"short")
    (tmp_path / ".owner").write_bytes(b"\xff")
    done = invoke(["monitor", str(tmp_path), "--json"])
    assert done.code == 0, done.err
    run = done.json()["run"]
    assert (run["step"], run["total_steps"], run["loss"], run["ended"]) == (0, None, None, None)
    assert [incident["name"] for incident in run["incidents"]] == ["unknown"]


def test_a_process_that_ends_ends_the_lines(ttf: Ttf, waiting: subprocess.Popen[bytes]) -> None:
    watcher = ttf("monitor", waiting.pid, "--interval", 0.1)
    assert watcher.stdout is not None
    first = [watcher.stdout.readline() for _ in range(3)]  # each is flushed
    assert all(first)
    waiting.kill()
    out, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert out.splitlines()[-1].split()[1] == "ended"
    assert "Only its parent process knows" in err


def test_head_ends_it_without_a_word(waiting: subprocess.Popen[bytes]) -> None:
    line = f"'{sys.executable}' -m ttf monitor {waiting.pid} --interval 0.1 | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split()[:3] == ["time", "status", "processes"] and done.stderr == ""
    assert done.returncode == 141, "as every command whose reader leaves"


def test_an_interrupt_of_the_lines_is_no_error(ttf: Ttf, waiting: subprocess.Popen[bytes]) -> None:
    watcher = ttf("monitor", waiting.pid, "--interval", 0.1)
    assert watcher.stdout is not None and watcher.stdout.readline() and watcher.stdout.readline()
    os.kill(watcher.pid, signal.SIGINT)
    out, err = watcher.communicate(timeout=60)
    assert (watcher.returncode, err) == (130, "")
    assert out == "" or out.endswith("\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["monitor"], 2, "Missing argument"),
        (["monitor", "4194305"], 2, "There is no process 4194305."),
        (["monitor", "no/such/run"], 3, "There is no folder no/such/run."),
        (["monitor", ".", "--interval", "0"], 2, "0.1"),
    ],
)
def test_wrong_input_is_told_what_to_do(
    invoke: Invoke, words: list[str], code: int, said: str
) -> None:
    done = invoke(words)
    assert (done.code, done.out) == (code, "") and said in done.err and "hint:" in done.err


@pytest.mark.parametrize("words", [["monitor", "PID", "--json"], ["explain", "segfault"]])
def test_neither_command_loads_anything_heavy(
    waiting: subprocess.Popen[bytes], words: list[str]
) -> None:
    argv = [word.replace("PID", str(waiting.pid)) for word in words]
    code = (
        f"import sys\nfrom ttf import cli\nassert cli.run({argv!r}) == 0\n"
        "print(*{m.partition('.')[0] for m in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stderr.split())
    assert not loaded & {"torch", "numpy", "pydantic", "rich", "faiss", "hnswlib", "zarr"}
