"""A run's folder: one writer at a time, errors of the disk by name, metrics without repetition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ttf.errors import ConfigError, DataMissing, FolderInUse, StorageError
from ttf.rundir import durable, removing
from ttf.rundir.documents import Summary
from ttf.rundir.failpoints import Failpoint
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.run_folder import RunFolder


def begun(path: Path) -> RunFolder:
    """The folder of a run that was begun by a process that has ended."""
    folder = RunFolder.new(path)
    folder.config.write_text("")
    folder.close()
    return folder


def test_a_failure_while_entering_lets_go_of_the_lock(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (folder.path / ".tmp-old-model-1").mkdir()
    failing = durable.intercepted(Failpoint.parse("leftover.rename:1:eio"))
    with failing, pytest.raises(StorageError):
        folder.__enter__()
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
    with pytest.raises(ConfigError, match="already contains a run"):
        RunFolder.new(tmp_path / "run")
    assert RunFolder.existing(tmp_path / "run").path == tmp_path / "run"
    with pytest.raises(DataMissing, match=r"no run\.toml"):
        RunFolder.existing(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["summary.json", "model", "checkpoints", "report.html", "log.txt"])
def test_a_folder_with_files_of_somebody_else_is_refused_and_left_as_it_was(
    name: str, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"contains {name}, but no run") as refusal:
        RunFolder.new(mine)
    assert "--out" in refusal.value.hint
    assert [path.name for path in mine.iterdir()] == [name]
    assert (mine / name).read_text() == "mine"


def test_files_that_a_run_does_not_write_are_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    RunFolder.new(tmp_path).close()


def test_what_a_run_left_that_was_killed_before_its_run_toml_is_used_again(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path / "run")
    for path in (folder.manifest, folder.flight, folder.stderr):
        path.write_text("{}")
    folder.close()
    RunFolder.new(folder.path).close()


def test_a_run_toml_of_the_users_is_no_run_and_never_rewritten(tmp_path: Path) -> None:
    own = tmp_path / "run.toml"
    own.write_text("# mine\n")
    with pytest.raises(ConfigError, match=r"contains run\.toml, but no run"):
        RunFolder.new(tmp_path)
    with pytest.raises(DataMissing, match=r"contains a run\.toml, but no run") as refusal:
        RunFolder.existing(tmp_path)
    assert f"ttf train {own} --out" in refusal.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


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


# --- durable writes ------------------------------------------------------------------------


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    durable.write_json(path, {"a": [1.5, float("nan")]})
    assert json.loads(path.read_text()) == {"a": [1.5, None]}
    with pytest.raises(TypeError):
        durable.write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": [1.5, None]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with removing.folder_written_whole(path) as temp:
        (temp / "inner").mkdir()
        (temp / "inner" / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), removing.folder_written_whole(path) as temp:
        (temp / "a").write_text("new")
        _ = 1 / 0
    assert (path / "inner" / "a").read_text() == "old"
    with removing.folder_written_whole(path) as temp:
        (temp / "b").write_text("new")
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_holds_a_run_is_refused_with_the_way_to_go_on(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    with pytest.raises(ConfigError, match="already contains a run") as refusal:
        RunFolder.new(tmp_path / "run")
    assert f"ttf resume {tmp_path / 'run'}" in refusal.value.hint
