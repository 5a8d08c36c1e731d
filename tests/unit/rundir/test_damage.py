"""Every file that a checkpoint needs is damaged in every way: the one before is used, aloud."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.kit.small_run import assert_state, begin, recovered, table, write_run

from ttf.errors import NoCheckpoint, StorageError
from ttf.rundir import verified_folders
from ttf.rundir.verified_folders import digest_of, newest_step, problem_with
from ttf.training import checkpoint

CHECKPOINT = [
    "checkpoint.json",
    "model.safetensors",
    "optimizer.safetensors",
    "bank.safetensors",
    "best.safetensors",
]
TABLE = ["manifest.json", "rows.npy", "ids.npy", "scores.npy", "positive_scores.npy"]
HARMS = ["no bytes", "one byte", "half", "all but a byte", "a bit", "deleted", "zeros", "longer"]
NEWEST = "checkpoints/step-000000003"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of steps 2 (which begins a window: no table) and 3 (which needs one)."""
    root = begin(tmp_path_factory.mktemp("kept") / "run")
    write_run(root, tell=lambda **_: None, stop=3)
    return root


@pytest.fixture
def run(kept: Path, ram: Path) -> Path:
    shutil.copytree(kept, ram / "run")
    return ram / "run"


def harm(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 4
    damaged: dict[str, bytes | bytearray] = {
        "no bytes": b"",
        "one byte": data[:1],
        "half": data[:middle],
        "all but a byte": data[:-1],
        "a bit": data,
        "zeros": bytes(len(data)),
        "longer": file.read_bytes() + b"\0",
    }
    if how == "deleted":
        file.unlink()
    else:
        file.write_bytes(damaged[how])


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize(
    "file", [*(f"{NEWEST}/{n}" for n in CHECKPOINT), *(f"candidates/table1/{n}" for n in TABLE)]
)
def test_the_one_before_is_used_and_the_damage_is_said(run: Path, file: str, how: str) -> None:
    assert newest_step(run / "checkpoints") == 3
    harm(run / file, how)
    assert newest_step(run / "checkpoints") == 2
    said: list[str] = []
    found = recovered(run, said.append)
    assert found.step == 2
    assert_state(found)
    assert len(said) == 1
    assert "step-000000003 is damaged" in said[0]
    assert Path(file).name in said[0] or "table1" in said[0]


def test_a_table_that_is_whole_but_another_one_is_not_taken(run: Path) -> None:
    other = table("table1")
    other.scores[0, 0] += 1
    shutil.rmtree(run / "candidates" / "table1")
    other.save(run / "candidates")
    assert "has changed since the checkpoint was saved" in problem_with(run / NEWEST)
    assert newest_step(run / "checkpoints") == 2


def test_a_table_that_is_gone_is_said(run: Path) -> None:
    shutil.rmtree(run / "candidates" / "table1")
    assert problem_with(run / NEWEST) == "its candidate table table1 is missing"
    assert problem_with(run / "checkpoints" / "step-000000002") == ""
    with pytest.raises(StorageError, match="its candidate table .*table1 could not be read"):
        checkpoint.save(run / "checkpoints", recovered_with(run, "table1"))


def recovered_with(run: Path, key: str) -> checkpoint.Snapshot:
    found = recovered(run)
    found.progress["table"] = key
    return found


def test_a_checkpoint_under_another_step_s_name_is_not_taken(run: Path) -> None:
    (run / NEWEST).rename(run / "checkpoints" / "step-000000009")
    assert newest_step(run / "checkpoints") == 2
    assert "step 3" in problem_with(run / "checkpoints" / "step-000000009")


def test_with_all_of_them_damaged_the_reasons_are_listed_and_nothing_starts_anew(
    run: Path,
) -> None:
    harm(run / NEWEST / "model.safetensors", "half")
    harm(run / "checkpoints" / "step-000000002" / "checkpoint.json", "deleted")
    assert newest_step(run / "checkpoints") == -1
    with pytest.raises(NoCheckpoint) as caught:
        recovered(run)
    assert "step-000000003: model.safetensors does not match" in str(caught.value)
    assert "step-000000002: checkpoint.json cannot be read" in str(caught.value)
    assert int(caught.value.exit_code) == 10


def test_what_is_damaged_does_not_count_as_kept(run: Path) -> None:
    for step in (1, 0):
        shutil.copytree(run / NEWEST, run / "checkpoints" / f"step-{step:09d}")
    write_again = recovered(run)
    checkpoint.save(run / "checkpoints", write_again)
    harm(run / "checkpoints" / "step-000000002" / "bank.safetensors", "a bit")
    verified_folders.prune(run / "checkpoints", 2)
    # 1 and 0 are copies under a wrong name, 2 is damaged: one intact is left, nothing may go
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == [f"step-{step:09d}" for step in (0, 1, 2, 3)]


@pytest.mark.parametrize("name", ["../table1", "../../outside", "/", "..", "a/b"])
def test_a_table_elsewhere_is_not_opened(run: Path, name: str) -> None:
    path = run / NEWEST / CHECKPOINT[0]
    document = json.loads(path.read_text())
    del document["sha256"]
    document["table"]["key"] = name if name != "/" else str(run / "candidates" / "table1")
    path.write_text(json.dumps({**document, "sha256": digest_of(document)}))
    assert "names a candidate table" in problem_with(run / NEWEST)
    assert newest_step(run / "checkpoints") == 2
