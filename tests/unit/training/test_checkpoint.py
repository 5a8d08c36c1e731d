"""Checkpoints: what comes back is what was saved, bit for bit, or it is not taken at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.kit.small_training import MLP, World, open_small

from ttf.data.dataset import Dataset
from ttf.errors import ArtifactDamaged, BadData, ConfigError, DataMissing, NoCheckpoint
from ttf.rundir import verified_folders
from ttf.rundir.removing import remove_leftovers
from ttf.training import checkpoint
from ttf.training.checkpoint import Snapshot
from ttf.training.towers import load_model, save_model, start_from


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def snapshot(step: int) -> Snapshot:
    weights = torch.arange(50.0).reshape(5, 10) + step
    return Snapshot(
        step=step,
        model={"w": weights, "scale": torch.tensor(3.5)},
        optimizer={"0.exp_avg": weights.T},
        bank={"ids": torch.arange(4) + step},
        best={},
        progress={"table": "", "best": 0.1 + 0.2, "nothing": None, "deep": {"a": [1, 2]}},
    )


def silent(line: str) -> None:
    pytest.fail(f"nothing was to be said, but: {line}")


def assert_equal(found: Snapshot, wanted: Snapshot) -> None:
    assert found.step == wanted.step
    assert found.progress == wanted.progress
    for name, tensors in wanted.groups().items():
        own = found.groups()[name]
        assert own.keys() == tensors.keys()
        for key, value in tensors.items():
            assert own[key].dtype == value.dtype
            assert torch.equal(own[key], value)


def test_a_snapshot_comes_back_as_it_was(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, snapshot(7))
    assert path.name == "step-000000007"
    assert verified_folders.problem_with(path) == ""
    assert_equal(checkpoint.load_newest(tmp_path, silent), snapshot(7))
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_snapshot_of_nothing_yet_comes_back_too(tmp_path: Path) -> None:
    empty = Snapshot(step=0, model={}, optimizer={}, bank={}, best={})
    checkpoint.save(tmp_path, empty)
    assert_equal(checkpoint.load_newest(tmp_path, silent), empty)


def test_training_goes_on_from_it_bit_for_bit(data: Dataset, tmp_path: Path) -> None:
    towers = {"query": MLP | {"dropout": 0.2}, "doc": MLP}
    straight = World(data, **towers)  # type: ignore[arg-type]
    straight.run(6)
    first = World(data, **towers)  # type: ignore[arg-type]
    first.run(3)
    bank = {"ids": torch.from_numpy(first.bank.ids[: first.bank.filled])}
    bank["vectors"] = first.bank.vectors()
    state = Snapshot(
        step=3,
        model=first.model.state_dict(),
        optimizer=checkpoint.optimizer_tensors(first.optimizer),
        bank=bank,
        best={},
        progress={"position": first.bank.position},
    )
    checkpoint.save(tmp_path, state)

    found = checkpoint.load_newest(tmp_path, silent)
    second = World(data, **towers, seed=0)  # type: ignore[arg-type]
    second.model.load_state_dict(found.model)
    checkpoint.restore_optimizer(second.optimizer, found.optimizer)
    second.bank.restore(
        found.bank["ids"].numpy(), found.progress["position"], found.bank["vectors"]
    )
    for step in range(3, 6):
        second.step(step)
    wanted = straight.weights()
    assert all(torch.equal(value, wanted[name]) for name, value in second.weights().items())
    assert torch.equal(second.bank.vectors(), straight.bank.vectors())
    for key, value in checkpoint.optimizer_tensors(straight.optimizer).items():
        assert torch.equal(checkpoint.optimizer_tensors(second.optimizer)[key], value), key


FILES = [
    "checkpoint.json",
    "model.safetensors",
    "optimizer.safetensors",
    "bank.safetensors",
    "best.safetensors",
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["missing", "cut", "empty", "first bit", "middle bit", "last bit"])
def test_a_damaged_file_sends_us_to_the_one_before_aloud(
    tmp_path: Path, name: str, harm: str
) -> None:
    for step in (5, 10):
        checkpoint.save(tmp_path, snapshot(step))
    file = verified_folders.path_of(tmp_path, 10) / name
    content = bytearray(file.read_bytes())
    if harm == "missing":
        file.unlink()
    elif harm in ("cut", "empty"):
        file.write_bytes(content[: len(content) // 2 if harm == "cut" else 0])
    else:
        place = {"first bit": 0, "middle bit": len(content) // 2, "last bit": -2}[harm]
        content[place] ^= 0x80 if harm == "first bit" else 1
        file.write_bytes(content)
    said: list[str] = []
    assert checkpoint.load_newest(tmp_path, said.append).step == 5
    assert len(said) == 1
    assert "step-000000010 is damaged" in said[0]
    assert name in said[0]


def test_a_changed_number_in_the_manifest_is_noticed(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, snapshot(5))
    manifest = path / "checkpoint.json"
    values = json.loads(manifest.read_text())
    values["progress"]["deep"]["a"][1] = 3
    manifest.write_text(json.dumps(values))
    assert "SHA-256" in verified_folders.problem_with(path)


def test_with_none_intact_the_reasons_are_listed(tmp_path: Path) -> None:
    for step in (5, 10):
        path = checkpoint.save(tmp_path, snapshot(step))
        (path / "model.safetensors").write_bytes(b"")
    (tmp_path / "step-000000015").mkdir()
    with pytest.raises(NoCheckpoint) as caught:
        checkpoint.load_newest(tmp_path, lambda _: None)
    for part in ("step-000000005: model.safetensors", "step-000000010", "step-000000015"):
        assert part in str(caught.value)


def test_with_none_at_all_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpoint, match="has no checkpoint"):
        checkpoint.load_newest(tmp_path, silent)


def test_one_of_a_later_format_is_not_guessed_at(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, snapshot(5))
    values = json.loads((path / "checkpoint.json").read_text()) | {"format": 3}
    (path / "checkpoint.json").write_text(json.dumps(values))
    assert "format is 3" in verified_folders.problem_with(path)


def steps(folder: Path) -> list[int]:
    return sorted(int(p.name.removeprefix("step-")) for p in folder.glob("step-*"))


def test_pruning_keeps_the_newest(tmp_path: Path) -> None:
    for step in (5, 10, 1000, 20):
        checkpoint.save(tmp_path, snapshot(step))
    verified_folders.prune(tmp_path, 2)
    assert steps(tmp_path) == [10, 20]


def with_table(folder: Path, step: int, key: str) -> None:
    for name in ("rows", "ids", "scores", "positive_scores"):
        write_new_file(folder.parent / "candidates" / key / f"{name}.npy", name)
    write_new_file(folder.parent / "candidates" / key / "manifest.json", "{}")
    made = snapshot(step)
    made.progress["table"] = key
    checkpoint.save(folder, made)


def write_new_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_pruning_keeps_the_newest_one_that_does_not_need_the_table_of_all_others(
    tmp_path: Path,
) -> None:
    # A flipped bit in that table would otherwise be the end of the run.
    folder = tmp_path / "checkpoints"
    for step, key in ((5, ""), (10, "a" * 24), (15, "a" * 24)):
        with_table(folder, step, key) if key else checkpoint.save(folder, snapshot(step))
        verified_folders.prune(folder, 2)
    assert steps(folder) == [5, 10, 15]
    for step, kept in ((20, [5, 15, 20]), (25, [5, 20, 25])):
        with_table(folder, step, "a" * 24)
        verified_folders.prune(folder, 2)
        assert steps(folder) == kept
    with_table(folder, 30, "b" * 24)
    verified_folders.prune(folder, 2)
    assert steps(folder) == [25, 30]
    with_table(folder, 35, "b" * 24)
    verified_folders.prune(folder, 2)
    assert steps(folder) == [25, 30, 35]


def test_damaged_ones_beyond_the_step_just_saved_do_not_count_as_kept(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        checkpoint.save(tmp_path, snapshot(step))
    (verified_folders.path_of(tmp_path, 15) / "bank.safetensors").unlink()
    assert checkpoint.load_newest(tmp_path, lambda _: None).step == 10
    checkpoint.save(tmp_path, snapshot(12))
    verified_folders.prune(tmp_path, 2)
    assert steps(tmp_path) == [10, 12]


def test_the_same_step_can_be_saved_again(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, snapshot(5))
    again = snapshot(5)
    again.progress["best"] = 0.5
    checkpoint.save(tmp_path, again)
    assert checkpoint.load_newest(tmp_path, silent).progress["best"] == 0.5
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000005"]


def test_what_was_moved_aside_for_one_that_never_came_is_put_back(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, snapshot(5))
    path.rename(tmp_path / f".tmp-old-{path.name}-123")
    remove_leftovers(tmp_path, tmp_path)
    assert_equal(checkpoint.load_newest(tmp_path, silent), snapshot(5))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# --- the finished towers -------------------------------------------------------------------


def save(folder: Path, made: World) -> str:
    loss, weights = made.stepper.gradients.config.loss, made.model.state_dict()
    return save_model(folder, weights, *made.specs, loss, step=2, metrics={"recall@10": 0.5})


def test_finished_towers_come_back_with_their_options(data: Dataset, tmp_path: Path) -> None:
    made = World(data, query=MLP, loss={"similarity": "dot", "temperature": 0.2})
    made.run(2)
    digest = save(tmp_path / "model", made)
    found = load_model(tmp_path / "model")
    assert len(digest) == 64
    assert not found.training
    assert not found.unit
    assert found.temperature.temperature() == pytest.approx(0.2)
    assert all(torch.equal(v, made.weights()[k]) for k, v in found.state_dict().items())


def test_towers_whose_description_was_changed_are_refused(data: Dataset, tmp_path: Path) -> None:
    save(tmp_path / "model", World(data))
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    other = "dot" if config["loss"]["similarity"] == "cosine" else "cosine"
    config["loss"]["similarity"] = other  # Loads as well, and gives other results.
    path.write_text(json.dumps(config))
    with pytest.raises(ArtifactDamaged, match="config.json does not match its own SHA-256"):
        load_model(tmp_path / "model")
    del config["document_sha256"]  # As an earlier version wrote it.
    path.write_text(json.dumps(config))
    assert load_model(tmp_path / "model").unit == (other == "cosine")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_damaged_towers_are_refused(data: Dataset, tmp_path: Path, name: str, harm: str) -> None:
    made = World(data)
    folder = tmp_path / "model"
    save(folder, made)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 0x80
    (folder / name).write_bytes(content if harm == "flipped" else content[:20])
    with pytest.raises(ArtifactDamaged, match="damaged"):
        load_model(folder)


def test_towers_without_their_weights_are_refused(data: Dataset, tmp_path: Path) -> None:
    made = World(data)
    save(tmp_path / "model", made)
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ArtifactDamaged, match=r"model\.safetensors"):
        load_model(tmp_path / "model")
    with pytest.raises(DataMissing, match="contains no model"):
        load_model(tmp_path)


def test_weights_to_start_from_must_fit(data: Dataset, tmp_path: Path) -> None:
    made, other = World(data, query=MLP), World(data, query=MLP | {"hidden": 8})
    made.run(1)
    save(tmp_path / "m", made)
    weights = tmp_path / "m" / "model.safetensors"
    same = World(data, query=MLP, seed=3)
    start_from(same.model, weights)
    assert all(torch.equal(v, made.weights()[k]) for k, v in same.weights().items())
    with pytest.raises(ConfigError, match=r"\(16, 6\) in the file and \(8, 6\) in the model"):
        start_from(other.model, weights)
    weights.write_bytes(b"not weights")
    with pytest.raises(BadData, match="not a readable safetensors"):
        start_from(same.model, weights)
    with pytest.raises(DataMissing, match="no such file"):
        start_from(same.model, tmp_path / "nowhere")


def test_without_a_checkpoint_the_run_can_be_started_anew_from_its_own_file(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "my run" / "checkpoints"
    folder.mkdir(parents=True)
    with pytest.raises(NoCheckpoint, match="the folder has no checkpoint") as caught:
        checkpoint.load_newest(folder, silent)
    assert f"ttf train '{tmp_path / 'my run' / 'run.toml'}' --out" in caught.value.hint


@pytest.mark.parametrize("tables", [None, 7, "x", ["rows"], {"rows": "1"}, {"rows": None}])
def test_versions_of_tables_that_are_no_numbers_do_not_fit(tables: object) -> None:
    changed = snapshot(7)
    changed.progress["tables"] = tables
    with pytest.raises(ArtifactDamaged, match="step 7 does not fit this run"):
        _ = changed.tables
