"""Which arms words make, what they are called, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ttf.errors import ConfigError
from ttf.tools.ab.arms import arms_from, check_arms, labels, split_values


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path in made:
        path.write_text("[train]\nsteps = 30\n")
    return made


def named(files: Sequence[Path], *vary: str) -> list[str]:
    return [arm.name for arm in arms_from(files, vary)]


def test_files_are_called_by_their_stems_and_variations_by_what_they_change(
    files: list[Path],
) -> None:
    a, b = files
    assert named([a, b]) == ["a", "b"]
    assert named([a], "miner.name=faiss,hnswlib") == ["miner.name=faiss", "miner.name=hnswlib"]
    assert named([a], "miner.name='x','y'", "device.threads=1,2") == [
        "miner.name=x, device.threads=1",
        "miner.name=x, device.threads=2",
        "miner.name=y, device.threads=1",
        "miner.name=y, device.threads=2",
    ]
    assert named([a, b], "train.lr=1,2") == [
        "a, train.lr=1", "a, train.lr=2", "b, train.lr=1", "b, train.lr=2"]  # fmt: skip


def test_equal_stems_get_their_folders_and_a_run_is_called_by_its_own(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").touch()
    both = [tmp_path / "x", tmp_path / "y"]
    assert named(both) == ["x/run", "y/run"]
    for folder in both:
        (folder / "manifest.json").touch()
    assert named(both) == ["x", "y"]
    assert labels([tmp_path / "a.toml", tmp_path / "b" / "a.toml"]) == [
        f"{tmp_path.name}/a",
        "b/a",
    ]


def test_commas_in_brackets_and_quotes_do_not_split() -> None:
    assert split_values("[1, 2],[3]") == ["[1, 2]", "[3]"]
    assert split_values("'a,b', {x = [1, 2], y = 3}") == ["'a,b'", "{x = [1, 2], y = 3}"]
    assert split_values("1,,2") == ["1", "", "2"]


def test_folders_of_arms_differ_though_their_names_hardly_do(files: list[Path]) -> None:
    slugs = [arm.slug for arm in arms_from(files[:1], ["data.pairs=x/y,x-y"])]
    assert len(set(slugs)) == 2
    assert all("/" not in slug for slug in slugs)


@pytest.mark.parametrize(
    ("names", "vary", "told"),
    [
        (["a"], (), ["at least two arms"]),
        (["a"], ("train.lr=1",), ["at least two arms"]),
        (["a", "a"], (), ["a.toml is given twice"]),
        (["a", "none"], ("train.lr", "k=1,1"), ["none.toml does not exist", "key.path", "twice"]),
        (["a"], ("train.lr=1,2", "train.lr=3"), ["given twice"]),
        (["a"], ("train.seed=1,2",), ["train.seed: ttf ab sets the seed of each block"]),
    ],
    ids=["one", "one value", "twice", "several", "key twice", "ours"],
)
def test_what_cannot_be_compared_is_refused_with_all_reasons(
    files: list[Path], names: list[str], vary: tuple[str, ...], told: list[str]
) -> None:
    with pytest.raises(ConfigError) as raised:
        arms_from([files[0].with_name(f"{name}.toml") for name in names], vary)
    for text in told:
        assert text in str(raised.value)


def test_keys_of_the_study_are_not_for_arms(files: list[Path]) -> None:
    with pytest.raises(ConfigError, match="train.steps: use --steps"):
        check_arms(arms_from(files[:1], ["train.steps=3,4"]), ["gates=[]"], 10)
