"""Data that cannot be trained on: named with file and array, exit code 3."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Invoke
from tests.kit.fixtures.doctor import Ask, WriteToml
from tests.kit.widely import wide


def _change(folder: Path, name: str, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    path = folder / name
    with np.load(path) as stored:
        arrays = {key: np.array(stored[key]) for key in stored.files}
    change(arrays)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _nan(folder: Path) -> None:
    _change(folder, "bank.npz", lambda arrays: arrays["vectors"].__setitem__((7, 3), np.nan))


def _cut(folder: Path) -> None:
    path = folder / "pairs.npz"
    os.truncate(path, path.stat().st_size // 2)


def _missing(folder: Path) -> None:
    (folder / "bank.npz").unlink()


def _narrow(folder: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["pos_train"][:] = -1

    _change(folder, "pairs.npz", change)


def _deflated(folder: Path) -> None:
    with np.load(folder / "bank.npz") as stored:
        arrays = {key: np.array(stored[key]) for key in stored.files}
    np.savez_compressed(folder / "bank.npz", **arrays)  # type: ignore[arg-type]


def _flipped(folder: Path) -> None:
    path = folder / "bank.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def _not_mine(folder: Path) -> None:
    (folder / "bank.npz").write_text("this is no container")


KINDS: list[tuple[Callable[[Path], None], str]] = [
    (_nan, "not finite"),
    (_cut, "pairs.npz"),
    (_missing, "bank.npz"),
    (_narrow, "has a positive"),
    (_deflated, "bank.npz"),
    (_flipped, "bank.npz"),
    (_not_mine, "bank.npz"),
]


@pytest.fixture
def own_data(tmp_path: Path, small_data: Path) -> Path:
    return Path(shutil.copytree(small_data, tmp_path / "data"))


@pytest.mark.parametrize(
    ("damage", "said"), KINDS[:1], ids=[damage.__name__.strip("_") for damage, _ in KINDS[:1]]
)
def test_bad_data_is_named_and_ends_with_3(
    ask: Ask, run_toml: WriteToml, own_data: Path, damage: Callable[[Path], None], said: str
) -> None:
    _assert_named(ask, run_toml, own_data, damage, said)


@wide
@pytest.mark.parametrize(
    ("damage", "said"), KINDS[1:], ids=[damage.__name__.strip("_") for damage, _ in KINDS[1:]]
)
def test_more_kinds_of_bad_data_are_named_and_end_with_3(
    ask: Ask, run_toml: WriteToml, own_data: Path, damage: Callable[[Path], None], said: str
) -> None:
    _assert_named(ask, run_toml, own_data, damage, said)


def _assert_named(
    ask: Ask, run_toml: WriteToml, folder: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(folder)
    found = ask(run_toml(folder=folder), check="data")
    assert (found["status"], found["cause"], found["exit_code"]) == ("fail", "data", 3)
    told = "\n".join([found["detail"], *found["evidence"]])
    assert said in told
    assert found["remedy"]


@wide
def test_steps_are_not_tried_with_bad_data(
    invoke: Invoke, run_toml: WriteToml, own_data: Path
) -> None:
    _nan(own_data)
    words = ["--check", "data", "--check", "steps", "--json"]
    done = invoke(["doctor", str(run_toml(folder=own_data)), *words])
    assert done.code == 3
    assert [check["status"] for check in done.json()["checks"]] == ["fail", "skip"]


@wide
def test_a_plan_is_not_made_of_data_that_cannot_be_opened(
    ask: Ask, run_toml: WriteToml, own_data: Path
) -> None:
    _missing(own_data)
    found = ask(run_toml(folder=own_data), check="plan")
    assert (found["status"], found["exit_code"]) == ("skip", 0)


@wide
def test_names_that_are_mapped_are_judged_by_opening_them(
    ask: Ask, run_toml: WriteToml, own_data: Path
) -> None:
    def rename(arrays: dict[str, np.ndarray]) -> None:
        for split in ("train", "val"):
            arrays[f"queries_{split}"] = arrays.pop(f"X_{split}")

    _change(own_data, "pairs.npz", rename)
    text = (
        f'pairs = "{own_data}/pairs.npz"\nbank = "{own_data}/bank.npz"\n'
        'names = { X_train = "queries_train", X_val = "queries_val" }'
    )
    assert ask(run_toml(data=text), check="data")["status"] == "ok"
    unmapped = f'pairs = "{own_data}/pairs.npz"\nbank = "{own_data}/bank.npz"'
    assert ask(run_toml(data=unmapped), check="data")["exit_code"] == 3
