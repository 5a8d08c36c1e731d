"""`ttf cache`: lists and removes what ttf made, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock
from tests.conftest import Invoke

KEY = "0123456789abcdef01234567"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("TTF_HOME", str(home))
    for kind, name, files in (
        ("half", KEY, ("manifest.json", "half.npy")),
        ("index", KEY[::-1], ("manifest.json", "index.faiss")),
        ("demo", "v1-4096-512-16-64-8192-0", ("done", "pairs.npz")),
        ("machine", "linux-x86_64-abc", ("ceilings.json",)),
    ):
        (home / kind / name).mkdir(parents=True)
        for file in files:
            (home / kind / name / file).write_bytes(b"x" * (5000 if kind == "half" else 100))
    return home


def names(home: Path) -> set[str]:
    return {
        str(path.relative_to(home)) for path in home.glob("*/*") if not path.name.endswith(".lock")
    }


def test_the_list_has_every_entry_the_largest_first(home: Path, invoke: Invoke) -> None:
    done = invoke(["cache", "list"])
    _, *rows = [line.split() for line in done.out.splitlines()]
    assert rows[0][0] == "half" and len(rows) == 4
    found = invoke(["cache", "list", "--json"]).json()
    assert found["path"] == str(home) and found["bytes"] == sum(
        e["bytes"] for e in found["entries"]
    )


def test_clear_removes_what_is_made_again_and_keeps_measurements(
    home: Path, invoke: Invoke
) -> None:
    assert invoke(["cache", "clear", "--dry-run"]).out.startswith("3 entries, ")
    assert len(names(home)) == 4
    assert invoke(["cache", "clear"]).code == 0
    assert names(home) == {"machine/linux-x86_64-abc"}
    assert invoke(["cache", "clear", "machine"]).out.startswith("1 entry, ")
    assert not names(home)
    assert "is empty" in invoke(["cache", "list"]).err


def test_clear_takes_kinds_and_an_age(home: Path, invoke: Invoke) -> None:
    long_ago = time.time() - 40 * 86_400
    os.utime(home / "half" / KEY, (long_ago, long_ago))
    invoke(["cache", "clear", "--older-than", "30d"])
    assert f"half/{KEY}" not in names(home) and len(names(home)) == 3
    invoke(["cache", "clear", "index"])
    assert {name.partition("/")[0] for name in names(home)} == {"demo", "machine"}
    assert "Did you mean 'index'?" in invoke(["cache", "clear", "indx"]).err


def test_an_entry_that_a_process_is_using_stays(home: Path, invoke: Invoke) -> None:
    with FileLock(home / "half" / f"{KEY}.lock"):
        done = invoke(["cache", "clear", "half", "--json"]).json()
    assert done["removed"] == [] and done["kept"][0]["reason"] == "a process is using it"
    assert f"half/{KEY}" in names(home)


def test_what_is_not_of_ttf_is_neither_listed_nor_removed(
    home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """A wrong TTF_HOME must not cost anybody a file."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "manifest.json").touch()
    (home / "half" / ("f" * 24)).symlink_to(precious)
    (home / "half" / "thesis").mkdir()
    (home / "index" / ("e" * 24)).mkdir()  # without a manifest
    (home / "demo" / "v1-2").mkdir()
    (home / "machine" / "photos").mkdir()
    (home / "machine" / "photos" / "a.jpg").touch()
    before = {"half/" + "f" * 24, "half/thesis", "index/" + "e" * 24, "demo/v1-2", "machine/photos"}
    invoke(["cache", "clear", "half", "index", "demo", "machine"])
    assert names(home) == before and (precious / "manifest.json").exists()
